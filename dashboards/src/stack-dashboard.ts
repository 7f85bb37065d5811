import { type DashboardFile, layOut } from './layout.ts';
import { alertPath, logs, metrics } from './stack/monitoring-panels.ts';
import { database, platform } from './stack/platform-panels.ts';

/** The dashboard of the monitoring stack and the platform under the service. */
export function stackDashboard(): DashboardFile {
  return layOut(
    {
      uid: 'activity-sync-stack',
      title: 'Activity Sync platform',
      description:
        'The monitoring stack itself, and the pods, volumes, database and GitOps objects that the service runs on.',
    },
    [
      { title: 'Alert path', panels: alertPath() },
      { title: 'Metrics', panels: metrics() },
      { title: 'Logs', panels: logs() },
      { title: 'Pods, nodes and volumes', panels: platform() },
      { title: 'Database, backups and GitOps', panels: database() },
    ],
  );
}
