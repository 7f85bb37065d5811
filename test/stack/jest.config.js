import shared from '../../jest.config.js';

/** The checks on the real programs of the monitoring stack: `npm run check:stack`. */
// biome-ignore lint/style/noDefaultExport: Jest takes the default export
export default {
  ...shared,
  rootDir: '../..',
  testMatch: ['<rootDir>/test/stack/*.check.ts'],
  maxWorkers: 3, // the log rules wait for minutes of their own
  testTimeout: 60_000,
  verbose: true,
};
