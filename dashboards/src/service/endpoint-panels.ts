import { chart } from '../panels.ts';

const RATE = '[$__rate_interval]';

/** What is sent to the application. */
export function endpoints() {
  return [
    chart(
      {
        title: 'Deliveries to endpoints',
        description: 'Attempts by result.',
        runbook: 'delivery.md#activitysyncendpointfailing',
        width: 6,
      },
      'ops',
      [[`sum by (result) (rate(activity_sync_deliveries_total${RATE}))`, '{{result}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Time to the application',
        description: 'From a change to its accepted delivery, and the call alone; the slowest 5%.',
        runbook: 'delivery.md#activitysyncdeliverieswaiting',
        width: 6,
      },
      's',
      [
        [
          `histogram_quantile(0.95, sum by (le) (rate(activity_sync_delivered_after_seconds_bucket${RATE})))`,
          'change to delivery',
        ],
        [`histogram_quantile(0.95, sum by (le) (rate(activity_sync_delivery_seconds_bucket${RATE})))`, 'call'],
      ],
    ),
    chart(
      {
        title: 'Endpoints by state',
        description: 'Endpoints of the application.',
        runbook: 'delivery.md#activitysyncendpointdisabled',
        width: 6,
      },
      'none',
      [['max by (state) (activity_sync_endpoints)', '{{state}}']],
    ),
    chart(
      {
        title: 'Waiting deliveries',
        description: 'How many, and for how long the first in line has been due.',
        runbook: 'delivery.md#activitysyncdeliverieswaiting',
        width: 6,
      },
      'none',
      [
        ['max(activity_sync_deliveries_waiting)', 'waiting'],
        ['max(activity_sync_oldest_due_delivery_age_seconds)', 'first in line, due for (s)'],
      ],
    ),
  ];
}
