import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DashboardFile } from './layout.ts';
import { serviceDashboard } from './service-dashboard.ts';
import { stackDashboard } from './stack-dashboard.ts';

/** Every dashboard file and its content. */
export function renderDashboards(): Map<string, string> {
  const asFile = (dashboard: DashboardFile) => `${JSON.stringify(dashboard, null, 2)}\n`;
  return new Map([
    ['activity-sync.json', asFile(serviceDashboard())],
    ['activity-sync-stack.json', asFile(stackDashboard())],
  ]);
}

/** Writes dashboards/*.json. */
export function writeDashboards(): void {
  for (const [file, text] of renderDashboards()) writeFileSync(join(import.meta.dirname, '..', file), text);
}

if (import.meta.main) writeDashboards();
