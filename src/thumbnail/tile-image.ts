import { sharp } from './image-library.ts';

/** Tiles are 256 px squared, or 512 px from servers for dense screens; more is not a tile. */
const MAX_TILE_PIXELS = 1024 * 1024;
const MAX_KEPT_PX = 512;

/**
 * Decodes a tile wholly and writes it again as a plain PNG, so that what is kept in memory is known to be
 * drawable and small in pixels whatever the server sent.
 * @returns undefined when the bytes are not a PNG, JPEG or WebP image of a tile's size.
 */
export async function normaliseTile(body: Buffer): Promise<Buffer | undefined> {
  // Checked before decoding: the library would also read SVG, PDF and other documents.
  if (!isRasterImage(body)) return undefined;
  try {
    return await sharp(body, { limitInputPixels: MAX_TILE_PIXELS, failOn: 'error' })
      .resize(MAX_KEPT_PX, MAX_KEPT_PX, { fit: 'fill', withoutEnlargement: true })
      .toColourspace('srgb')
      .png({ compressionLevel: 4 })
      .toBuffer();
  } catch (error) {
    // The decoder's only way to say "damaged or too large"; anything else is an internal error.
    if (error instanceof Error) return undefined;
    throw error;
  }
}

function isRasterImage(body: Buffer): boolean {
  const start = body.toString('latin1', 0, 12);
  return start.startsWith('\x89PNG\r\n\x1a\n') || start.startsWith('\xff\xd8\xff') || /^RIFF....WEBP$/s.test(start);
}
