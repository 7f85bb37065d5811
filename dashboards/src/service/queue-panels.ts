import { chart } from '../panels.ts';

const RATE = '[$__rate_interval]';

/** Jobs: what waits, for what and for how long. */
export function queue() {
  return [
    chart(
      { title: 'Jobs by status', description: 'All stored jobs.', runbook: 'queue.md#activitysyncqueuegrowing' },
      'none',
      [['sum by (status) (max by (status, reason) (activity_sync_jobs))', '{{status}}']],
    ),
    chart(
      {
        title: 'Pending jobs by reason',
        description: 'Webhook jobs go first.',
        runbook: 'queue.md#activitysyncqueuegrowing',
      },
      'none',
      [['max by (reason) (activity_sync_jobs{status="pending"})', '{{reason}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'What pending jobs wait for',
        description: 'Only waiting for a worker depends on the number of workers.',
        runbook: 'queue.md#activitysyncqueuestalled',
      },
      'none',
      [['max by (cause) (activity_sync_jobs_waiting)', '{{cause}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Fetching paused',
        description: '1 while an operator has paused fetching for that reason.',
        runbook: 'queue.md#activitysyncqueuestalled',
      },
      'none',
      [['max by (reason) (activity_sync_fetch_paused)', '{{reason}}']],
    ),
    chart(
      {
        title: 'Oldest job that could run',
        description: 'Age by reason.',
        runbook: 'queue.md#activitysyncwebhookjobold',
      },
      's',
      [['max by (reason) (activity_sync_oldest_due_job_age_seconds)', '{{reason}}']],
    ),
    chart(
      {
        title: 'Runs by result',
        description: 'Results of the runs.',
        runbook: 'queue.md#activitysyncjobfailureratiohigh',
      },
      'ops',
      [[`sum by (result) (rate(activity_sync_jobs_finished_total${RATE}))`, '{{result}}']],
      { isStacked: true },
    ),
    chart(
      {
        title: 'Queue wait and run time',
        description: 'Slowest 5%: from due to claimed, and from claimed to settled.',
        runbook: 'queue.md#activitysyncqueuestalled',
      },
      's',
      [
        [
          `histogram_quantile(0.95, sum by (le, reason) (rate(activity_sync_job_wait_seconds_bucket${RATE})))`,
          'wait {{reason}}',
        ],
        [
          `histogram_quantile(0.95, sum by (le, reason) (rate(activity_sync_job_run_seconds_bucket${RATE})))`,
          'run {{reason}}',
        ],
      ],
    ),
    chart(
      {
        title: 'Worker slots',
        description: 'Busy slots and all slots, over all replicas.',
        runbook: 'queue.md#activitysyncqueuestalled',
      },
      'none',
      [
        ['sum by (worker) (activity_sync_workers_busy)', '{{worker}} busy'],
        ['sum by (worker) (activity_sync_worker_slots)', '{{worker}} all'],
      ],
    ),
    chart(
      {
        title: 'Jobs rescued',
        description: 'Jobs whose worker died or did not finish in time.',
        runbook: 'queue.md#activitysyncjobsreclaimed',
      },
      'none',
      [['sum(increase(activity_sync_jobs_reclaimed_total[$__interval]))', 'rescued']],
    ),
  ];
}
