// JavaScript, which every Node reads: an older one says what it needs, where TypeScript would be a syntax error.
import { existsSync } from 'node:fs';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `Activity Sync needs Node 22.18 or newer, and this is Node ${process.versions.node}. Run npm ci with install scripts allowed: it brings Node 24 for npm start, npm run dev and npm run demo.\n`,
  );
  process.exit(1);
}
if (existsSync('.env')) process.loadEnvFile('.env');
const entries = { demo: './demo.ts', load: './demo.ts', dev: './dev.ts' };
await import(entries[process.argv[2]] ?? './main.ts');
