import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/*
 * Finds phrases that the house style replaces (phrases.json), also those that a comment breaks over two lines.
 * Run: npm run words
 */
const root = join(import.meta.dirname, '../..');
const { files, phrases } = JSON.parse(readFileSync(join(root, 'phrases.json'), 'utf8')) as {
  files: string[];
  phrases: { instead: string; write: string }[];
};
// Packages have their own style.
const paths = globSync(files, { cwd: root, exclude: (name) => name.includes('node_modules') }).sort();

let hits = 0;
for (const path of paths) {
  const text = readFileSync(join(root, path), 'utf8');
  // As one line of the same length: a line's end and the sign of a comment become spaces.
  const flat = text.replaceAll(/\n[ \t]*(\*|\/\/|--|#)?[ \t]*/g, (end) => ' '.repeat(end.length));
  for (const { instead, write } of phrases) {
    for (const { 0: found, index } of flat.matchAll(new RegExp(instead.replaceAll(' ', String.raw`\s+`), 'gi'))) {
      hits += 1;
      const line = text.slice(0, index).split('\n').length;
      console.log(`${path}:${line}: "${found.replaceAll(/\s+/g, ' ')}"; write: ${write}`);
    }
  }
}
console.log(`${paths.length} files, ${hits} phrases to replace`);
process.exitCode = hits === 0 ? 0 : 1;
