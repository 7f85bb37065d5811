import { chart, figure } from '../panels.ts';

const RATE = '[$__rate_interval]';

/** The service's objectives, and whether they are met. */
export function glance() {
  return [
    figure(
      {
        title: 'Successful deliveries',
        description: 'Share over the time range; the objective is 99.9%.',
        runbook: 'webhook.md#activitysyncwebhookerrorbudgetfastburn',
        width: 3,
      },
      'percentunit',
      '1 - (sum(increase(activity_sync_webhook_ack_seconds_count{code=~"5.."}[$__range])) or vector(0)) / (sum(increase(activity_sync_webhook_ack_seconds_count[$__range])) > 0)',
      { warn: 0.999, bad: 0.995, isLowBad: true },
    ),
    figure(
      {
        title: 'Error budget left',
        description: 'Of the 0.1% that may fail in 30 days. Below 0 the objective is missed.',
        runbook: 'webhook.md#activitysyncwebhookerrorbudgetatrisk',
        width: 3,
      },
      'percentunit',
      'activity_sync:webhook_error_budget_left:30d',
      { warn: 0.25, bad: 0, isLowBad: true },
    ),
    figure(
      {
        title: 'Acknowledgement, slowest 1%',
        description: 'The provider allows 2 s.',
        runbook: 'webhook.md#activitysyncwebhookackslow',
        width: 3,
      },
      's',
      'histogram_quantile(0.99, sum by (le) (rate(activity_sync_webhook_ack_seconds_bucket[$__range])))',
      { warn: 0.5, bad: 1.5 },
    ),
    figure(
      {
        title: 'Webhook to stored, slowest 5%',
        description: 'From the acceptance of a delivery until its activity is stored; the objective is 30 s.',
        runbook: 'webhook.md#activitysyncfreshnessslow',
        width: 3,
      },
      's',
      'histogram_quantile(0.95, sum by (le) (rate(activity_sync_webhook_to_stored_seconds_bucket[$__range])))',
      { warn: 15, bad: 30 },
    ),
    figure(
      {
        title: 'Oldest webhook job',
        description: 'How long the oldest webhook job that could run has waited.',
        runbook: 'queue.md#activitysyncwebhookjobold',
      },
      's',
      'max(activity_sync_oldest_due_job_age_seconds{reason="webhook"})',
      { warn: 60, bad: 300 },
    ),
    figure(
      {
        title: 'Budget left',
        description: 'Share of the current window; background jobs leave the last 10%.',
        runbook: 'provider.md#activitysyncbudgetnearlyspent',
      },
      'percentunit',
      'max(activity_sync_budget_left) / (max(activity_sync_budget_capacity) > 0)',
      { warn: 0.2, bad: 0.05, isLowBad: true },
    ),
    figure(
      { title: 'Firing alerts', description: 'Firing alerts of the service.' },
      'none',
      'count(ALERTS{namespace=~"$namespace|",alertname=~"ActivitySync.+",alertstate="firing"}) or vector(0)',
      { warn: 1, bad: 3 },
    ),
  ];
}

/** Deliveries: how many, with which result, how fast they are answered. */
export function webhooks() {
  return [
    chart(
      {
        title: 'Deliveries by result',
        description: 'Deliveries from the provider by result.',
        runbook: 'webhook.md#activitysyncwebhooksrefused',
      },
      'reqps',
      [[`sum by (result) (rate(activity_sync_webhook_events_total${RATE}))`, '{{result}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Answers by code',
        description: '503 means that the database was unreachable; the provider delivers again.',
        runbook: 'webhook.md#activitysyncwebhookerrorbudgetfastburn',
      },
      'reqps',
      [[`sum by (code) (rate(activity_sync_webhook_ack_seconds_count${RATE}))`, '{{code}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Acknowledgement time',
        description: 'The provider allows 2 s.',
        runbook: 'webhook.md#activitysyncwebhookackslow',
      },
      's',
      [
        [`histogram_quantile(0.5, sum by (le) (rate(activity_sync_webhook_ack_seconds_bucket${RATE})))`, 'half'],
        [`histogram_quantile(0.95, sum by (le) (rate(activity_sync_webhook_ack_seconds_bucket${RATE})))`, 'slowest 5%'],
        [`histogram_quantile(0.99, sum by (le) (rate(activity_sync_webhook_ack_seconds_bucket${RATE})))`, 'slowest 1%'],
      ],
    ),
    chart(
      {
        title: 'Error ratio against its limits',
        description:
          'Alerts fire above 1.44% over an hour, 0.6% over six hours, 0.3% over a day, 0.1% over three days.',
        runbook: 'webhook.md#activitysyncwebhookerrorbudgetslowburn',
      },
      'percentunit',
      [
        ['activity_sync:webhook_error_ratio:rate5m', '5 minutes'],
        ['activity_sync:webhook_error_ratio:rate1h', '1 hour'],
        ['activity_sync:webhook_error_ratio:rate6h', '6 hours'],
        ['activity_sync:webhook_error_ratio:rate1d', '1 day'],
        ['activity_sync:webhook_error_ratio:rate3d', '3 days'],
      ],
    ),
    chart(
      {
        title: 'Webhook to stored',
        description: 'From the acceptance of a delivery until its activity is stored.',
        runbook: 'webhook.md#activitysyncfreshnessslow',
      },
      's',
      [
        [`histogram_quantile(0.5, sum by (le) (rate(activity_sync_webhook_to_stored_seconds_bucket${RATE})))`, 'half'],
        [
          `histogram_quantile(0.95, sum by (le) (rate(activity_sync_webhook_to_stored_seconds_bucket${RATE})))`,
          'slowest 5%',
        ],
      ],
    ),
    chart(
      {
        title: 'Time since the newest delivery',
        description: 'Grows while the provider is silent.',
        runbook: 'webhook.md#activitysyncwebhooksstopped',
      },
      's',
      [['time() - (max(activity_sync_webhook_last_received_timestamp_seconds) > 0)', 'newest delivery']],
    ),
  ];
}
