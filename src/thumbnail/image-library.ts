import sharp from 'sharp';

/*
 * The one place that sets up sharp for the process; everything that touches pixels imports it from here.
 *
 * One thread per picture: a thumbnail is too small for libvips to share out, and several are rendered
 * side by side anyway, so more threads would only take the processor from the other workers.
 * No operation cache: it keys on inputs, no two thumbnails share one, and it would only hold memory.
 */
sharp.concurrency(1);
sharp.cache(false);

export { sharp };
