import { describe, expect, it } from '@jest/globals';

import type { LatLng } from '../../src/domain/route.ts';
import { sharp } from '../../src/thumbnail/image-library.ts';
import { renderThumbnail, type ThumbnailRequest } from '../../src/thumbnail/render-thumbnail.ts';

const plain = { sizePx: 256, debug: false, map: undefined } satisfies Partial<ThumbnailRequest>;

/** West to east along a parallel: on the picture a level line from (28, 128) to (228, 128). */
const LEVEL: LatLng[] = Array.from({ length: 300 }, (_unused, i) => [46.9, 7.4 + i / 3000]);

describe('the thumbnail of a route', () => {
  it.each([64, 256, 513])('is a PNG of %i px squared without transparency', async (sizePx) => {
    const { png } = await renderThumbnail({ ...plain, route: LEVEL, sizePx });
    const { format, width, height, hasAlpha } = await sharp(png).metadata();
    expect({ format, width, height, hasAlpha }).toEqual({
      format: 'png',
      width: sizePx,
      height: sizePx,
      hasAlpha: false,
    });
  });

  it('shows the line where the route runs, with a white outline, on a pale background', async () => {
    const colourAt = await decode(await renderThumbnail({ ...plain, route: LEVEL }));
    for (const x of [50, 128, 200]) {
      expect(isRouteColour(colourAt(x, 128))).toBe(true);
      expect(Math.min(...colourAt(x, 130))).toBeGreaterThan(248);
      expect(isRouteColour(colourAt(x, 140))).toBe(false);
    }
    expect(Math.min(...colourAt(2, 253))).toBeGreaterThan(200);
  });

  it('marks the start green and the end dark', async () => {
    const colourAt = await decode(await renderThumbnail({ ...plain, route: LEVEL }));
    const [startRed, startGreen] = colourAt(28, 128);
    expect(startGreen).toBeGreaterThan(startRed + 80);
    expect(Math.max(...colourAt(228, 128))).toBeLessThan(80);
  });

  it('reports the route’s bounds and the zoom', async () => {
    const { bounds, zoom } = await renderThumbnail({ ...plain, route: LEVEL });
    expect(bounds).toEqual({ south: 46.9, west: 7.4, north: 46.9, east: 7.499667 });
    expect(zoom).toBeGreaterThan(11);
  });

  it('is contiguous across the antimeridian', async () => {
    const crossing = Array.from({ length: 300 }, (_unused, i): LatLng => {
      const longitude = 179.5 + i / 300;
      return [-17, longitude > 180 ? longitude - 360 : longitude];
    });
    const thumbnail = await renderThumbnail({ ...plain, route: crossing });
    const colourAt = await decode(thumbnail);
    for (let x = 40; x < 216; x += 1) expect(isRouteColour(colourAt(x, 128))).toBe(true);
    expect(thumbnail.bounds).toMatchObject({ west: 179.5, east: -179.503333 });
  });

  it('skips invalid coordinates', async () => {
    const broken: LatLng[] = [[Number.NaN, 0], ...LEVEL, [46.9, 720], [-120, 7.4]];
    const [whole, withBroken] = await Promise.all([LEVEL, broken].map((route) => renderThumbnail({ ...plain, route })));
    expect(withBroken?.etag).toBe(whole?.etag);
  });

  it('shows a route over the pole', async () => {
    const { bounds } = await renderThumbnail({
      ...plain,
      route: [
        [80, 10],
        [90, 10],
        [80, -170],
      ],
    });
    expect(bounds?.north).toBeCloseTo(85.051129, 6);
  });

  it('draws a huge track with few points', async () => {
    const huge = Array.from({ length: 100_000 }, (_unused, i): LatLng => {
      const angle = i / 4000;
      return [46.9 + (i / 4e6) * Math.sin(angle), 7.4 + (i / 4e6) * Math.cos(angle)];
    });
    const { drawnPoints } = await renderThumbnail({ ...plain, route: huge });
    expect(drawnPoints).toBeGreaterThan(50);
    expect(drawnPoints).toBeLessThanOrEqual(2000);
  });

  it('has a strong, quoted entity tag that follows the bytes', async () => {
    const [first, again, other] = await Promise.all(
      [LEVEL, [...LEVEL], LEVEL.toReversed()].map((route) => renderThumbnail({ ...plain, route })),
    );
    expect(first?.etag).toMatch(/^"[\w-]{43}"$/);
    expect(again?.etag).toBe(first?.etag);
    expect(again?.png.equals(first?.png ?? Buffer.alloc(0))).toBe(true);
    expect(other?.etag).not.toBe(first?.etag);
  });

  it('shows bounds and zoom as text only in debug mode', async () => {
    const [quiet, debug] = await Promise.all(
      [false, true].map(async (on) => decode(await renderThumbnail({ ...plain, route: LEVEL, debug: on }))),
    );
    expect(countDark(quiet, { left: 0, top: 0, width: 150, height: 36 })).toBe(0);
    expect(countDark(debug, { left: 0, top: 0, width: 150, height: 36 })).toBeGreaterThan(200);
  });
});

describe('the thumbnail without a route', () => {
  it('shows the sport, each kind of sport its own', async () => {
    const sports = ['VirtualRide', 'Run', 'Hike', 'Swim', 'Kayaking', 'NordicSki', 'WeightTraining', 'Yoga'];
    const thumbnails = await Promise.all(
      sports.map((sportType) => renderThumbnail({ ...plain, route: [], label: { sportType } })),
    );
    expect(new Set(thumbnails.map(({ etag }) => etag)).size).toBe(sports.length);
    for (const thumbnail of thumbnails) {
      expect(thumbnail.bounds).toBeUndefined();
      expect(countDark(await decode(thumbnail), { left: 80, top: 80, width: 96, height: 96 })).toBeGreaterThan(200);
    }
  });

  it('shows the same symbol for an unknown sport as for none', async () => {
    const [unknown, none] = await Promise.all([
      renderThumbnail({ ...plain, route: [], label: { sportType: 'Quidditch' } }),
      renderThumbnail({ ...plain, route: [[Number.NaN, Number.NaN]] }),
    ]);
    expect(unknown.etag).toBe(none.etag);
  });

  it.each([
    ['one point', [[46.9, 7.4]]],
    ['a recording that stood still', Array.from({ length: 50 }, () => [46.9, 7.4])],
  ])('shows one dot in the middle for %s', async (_case, route) => {
    const thumbnail = await renderThumbnail({ ...plain, route: route as unknown as LatLng[] });
    const colourAt = await decode(thumbnail);
    expect(isRouteColour(colourAt(128, 128))).toBe(true);
    expect(isRouteColour(colourAt(140, 128))).toBe(false);
    expect(thumbnail.drawnPoints).toBe(1);
  });
});

describe('renderThumbnail', () => {
  it.each([0, 15, 2049, 100.5, Number.NaN])('refuses a size of %d px', async (sizePx) => {
    await expect(renderThumbnail({ ...plain, route: LEVEL, sizePx })).rejects.toThrow(RangeError);
  });

  it('stops with the reason of its signal', async () => {
    const reason = new Error('shutting down');
    const request = { ...plain, route: LEVEL, signal: AbortSignal.abort(reason) };
    await expect(renderThumbnail(request)).rejects.toBe(reason);
  });

  it('keeps sharp to one thread and no cache', () => {
    expect(sharp.concurrency()).toBe(1);
    expect(sharp.cache().memory.max).toBe(0);
  });
});

type Colour = [red: number, green: number, blue: number];

async function decode({ png }: { png: Buffer }): Promise<(x: number, y: number) => Colour> {
  const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true });
  return (x, y) => {
    const offset = (y * info.width + x) * info.channels;
    return [data[offset] ?? 0, data[offset + 1] ?? 0, data[offset + 2] ?? 0];
  };
}

function isRouteColour([red, green, blue]: Colour): boolean {
  return red > 210 && green < 100 && blue < 80;
}

function countDark(
  colourAt: ((x: number, y: number) => Colour) | undefined,
  area: { left: number; top: number; width: number; height: number },
): number {
  let dark = 0;
  for (let y = area.top; y < area.top + area.height; y += 1) {
    for (let x = area.left; x < area.left + area.width; x += 1) {
      if (Math.max(...(colourAt?.(x, y) ?? [255])) < 140) dark += 1;
    }
  }
  return dark;
}
