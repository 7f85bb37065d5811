import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderManifests } from './render-manifests.ts';
import { readRuleFiles } from './rule-files.ts';

/** Regenerates alerting/manifests from alerting/rules. */
export function writeManifests(): void {
  const folder = join(import.meta.dirname, '../manifests');
  for (const file of readdirSync(folder)) rmSync(join(folder, file));
  for (const [file, text] of renderManifests(readRuleFiles())) writeFileSync(join(folder, file), text);
}

if (import.meta.main) writeManifests();
