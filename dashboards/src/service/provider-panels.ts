import { chart } from '../panels.ts';

const RATE = '[$__rate_interval]';

/** Calls to the provider and the budget that all replicas share. */
export function provider() {
  return [
    chart(
      {
        title: 'Calls by code',
        description: 'Calls to the provider.',
        runbook: 'provider.md#activitysyncproviderfailing',
      },
      'reqps',
      [[`sum by (code) (rate(activity_sync_provider_calls_total${RATE}))`, '{{code}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Calls by endpoint',
        description: 'Calls to the provider.',
        runbook: 'provider.md#activitysyncbudgetnearlyspent',
      },
      'reqps',
      [[`sum by (endpoint) (rate(activity_sync_provider_calls_total${RATE}))`, '{{endpoint}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Call time',
        description: 'Slowest 5% by endpoint.',
        runbook: 'provider.md#activitysyncproviderfailing',
      },
      's',
      [
        [
          `histogram_quantile(0.95, sum by (le, endpoint) (rate(activity_sync_provider_call_seconds_bucket${RATE})))`,
          '{{endpoint}}',
        ],
      ],
    ),
    chart(
      {
        title: 'Budget of the window',
        description: 'Calls; the capacity falls after a 429 and recovers.',
        runbook: 'provider.md#activitysyncbudgetnearlyspent',
      },
      'none',
      [
        ['max(activity_sync_budget_used)', 'used'],
        ['max(activity_sync_budget_capacity)', 'capacity'],
        ['max(activity_sync_budget_configured_capacity)', 'configured'],
      ],
    ),
    chart(
      {
        title: 'Budget of the day',
        description: 'Calls of the UTC day and the limit.',
        runbook: 'provider.md#activitysyncdailybudgetnearlyspent',
      },
      'none',
      [
        ['max(activity_sync_budget_daily_used)', 'used'],
        ['max(activity_sync_budget_daily_limit)', 'limit'],
      ],
    ),
    chart(
      {
        title: 'Grants and refusals',
        description: 'Calls granted and refused by the budget, by the job’s reason.',
        runbook: 'provider.md#activitysyncdailybudgetnearlyspent',
      },
      'ops',
      [[`sum by (reason, result) (rate(activity_sync_budget_grants_total${RATE}))`, '{{reason}} {{result}}']],
    ),
    chart(
      {
        title: 'Throttling',
        description: '429s, and how long calls are blocked.',
        runbook: 'provider.md#activitysyncthrottled',
      },
      's',
      [
        ['sum(increase(activity_sync_provider_throttled_total[$__interval]))', 'answers 429'],
        ['clamp_min(max(activity_sync_budget_blocked_until_timestamp_seconds) - time(), 0)', 'stopped for'],
      ],
      { counted: 'answers 429' },
    ),
    chart(
      { title: 'Token refreshes', description: 'By result.', runbook: 'provider.md#activitysynctokenrefreshfailing' },
      'none',
      [['sum by (result) (increase(activity_sync_token_refreshes_total[$__interval]))', '{{result}}']],
    ),
    chart(
      {
        title: 'Athletes and refused access',
        description: 'Connected athletes by state; fetches refused with 401 or 403.',
        runbook: 'provider.md#activitysyncauthorisationfailing',
      },
      'none',
      [
        ['max by (state) (activity_sync_athletes)', '{{state}}'],
        ['sum by (code) (increase(activity_sync_authorisation_failures_total[$__interval]))', 'refused {{code}}'],
      ],
    ),
  ];
}

/** The sweeps and the pictures. */
export function pollingAndThumbnails() {
  return [
    chart(
      {
        title: 'Drift',
        description: 'What polling found that webhooks should have brought.',
        runbook: 'polling.md#activitysyncdriftfound',
        width: 6,
      },
      'none',
      [['sum by (kind) (increase(activity_sync_drift_total[$__interval]))', '{{kind}}']],
    ),
    chart(
      {
        title: 'Time since the last sweep',
        description: 'Against the configured interval.',
        runbook: 'polling.md#activitysyncpollingnotrunning',
        width: 6,
      },
      's',
      [
        ['time() - (max(activity_sync_polling_last_finished_timestamp_seconds) > 0)', 'since the last sweep'],
        ['max(activity_sync_polling_interval_seconds)', 'interval'],
        ['sum by (result) (increase(activity_sync_polling_sweeps_total[$__interval]))', 'sweeps {{result}}'],
      ],
      { counted: 'sweeps .+' },
    ),
    chart(
      { title: 'Thumbnails', description: 'By result.', runbook: 'polling.md#activitysyncthumbnailsfailing', width: 6 },
      'ops',
      [[`sum by (result) (rate(activity_sync_thumbnails_total${RATE}))`, '{{result}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Rendering time and wait',
        description: 'The slowest 5%, and for how long the first in line has been due.',
        runbook: 'polling.md#activitysyncthumbnailswaiting',
        width: 6,
      },
      's',
      [
        [`histogram_quantile(0.95, sum by (le) (rate(activity_sync_thumbnail_seconds_bucket${RATE})))`, 'slowest 5%'],
        ['max(activity_sync_oldest_due_thumbnail_age_seconds)', 'first in line, due for'],
      ],
    ),
  ];
}
