import chromium from '@sparticuz/chromium';

// Run as a process of its own by packaged-chromium.ts: the package unpacks into TMPDIR.
await chromium.executablePath();
