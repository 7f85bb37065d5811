/** Jest runs the TypeScript as ES modules through swc; types are checked by `npm run types`. */
export default {
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { parser: { syntax: 'typescript' }, target: 'es2024' }, module: { type: 'es6' } },
    ],
  },
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  testEnvironment: '<rootDir>/test/support/leak-checking-environment.ts',
  maxWorkers: 3, // of two cores one stood idle while a file waits for windows, alerts or processes
  testTimeout: 30000,
};
