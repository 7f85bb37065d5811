import { type DashboardFile, layOut } from './layout.ts';
import { glance, webhooks } from './service/delivery-panels.ts';
import { endpoints } from './service/endpoint-panels.ts';
import { alertsAndLogs, runtime } from './service/process-panels.ts';
import { pollingAndThumbnails, provider } from './service/provider-panels.ts';
import { queue } from './service/queue-panels.ts';

/** The dashboard of the service, in the order of an activity's path: delivery, queue, provider, store, thumbnail. */
export function serviceDashboard(): DashboardFile {
  return layOut(
    {
      uid: 'activity-sync',
      title: 'Activity Sync',
      description: 'From the webhook to the stored activity and its thumbnail: promises, waits, budget, errors.',
    },
    [
      { title: 'At a glance', panels: glance() },
      { title: 'Webhooks', panels: webhooks() },
      { title: 'Queue', panels: queue() },
      { title: 'Provider and budget', panels: provider() },
      { title: 'Polling and thumbnails', panels: pollingAndThumbnails() },
      { title: 'The application’s endpoints', panels: endpoints() },
      { title: 'Database and runtime', panels: runtime() },
      { title: 'Alerts and logs', panels: alertsAndLogs() },
    ],
  );
}
