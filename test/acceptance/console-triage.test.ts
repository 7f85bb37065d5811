import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../support/browser.ts';
import { type ConsolePage, findBarriers, NARROW, openConsole, startReachableRig } from '../support/console.ts';
import { putJobs } from '../support/put-jobs.ts';
import type { Rig } from '../support/service.ts';

let rig: Rig;
let browser: Browser;
let opened: ConsolePage;
let page: Page;
let athleteId: string;

beforeAll(async () => {
  [rig, browser] = await Promise.all([startReachableRig({ env: { FETCH_BACKOFF_BASE_MS: '1' } }), startBrowser()]);
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await rig?.close();
});
beforeEach(async () => {
  athleteId = await rig.connectAthlete('Ada Runner');
  opened = await openConsole(browser, rig.service.url);
  page = opened.page;
});
afterEach(async () => {
  await opened.close();
  expect(opened.faults).toEqual([]);
});

const open = (path: string) => page.goto(`${rig.service.url}/admin${path}`);
const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
const told = (text: string | RegExp) => page.getByRole('status').getByText(text).waitFor();
const confirm = (name: string) => page.getByRole('dialog').getByRole('button', { name, exact: true }).click();

let nextId = 8_007_199_254_740_993n;

/** A job that fails for good. @param status how the provider answers; 404 without */
async function fail(status?: number): Promise<{ id: string; jobId: string }> {
  const id = String(nextId++);
  if (status !== undefined) rig.simulator.faults.add({ kind: 'status', status, match: { activityId: id } });
  const body = JSON.stringify({ activityId: id, athleteId });
  await rig.admin('/api/admin/activity-jobs', { method: 'POST', body });
  return { id, jobId: (await rig.untilJob(id, (job) => job.status === 'failed')).id };
}

describe('failed jobs', () => {
  it('are grouped by their error, and a group leads to its jobs, which are retried together', async () => {
    const failed = [await fail(), await fail(), await fail(400)];
    await open(`/jobs?status=failed&athleteId=${athleteId}`);
    const groups = page.getByRole('table', { name: 'Failures by error', exact: true });
    await groups.getByRole('row').nth(2).waitFor();
    expect(await groups.getByRole('row').nth(1).innerText()).toMatch(/HTTP 404.*\s2\s/s);
    expect(await findBarriers(page)).toEqual([]);
    await groups.getByRole('link', { name: /HTTP 404/ }).click();
    await page.getByText('2 jobs match').waitFor();
    expect(await page.getByLabel('Error contains').inputValue()).toMatch(/HTTP 404/);
    for (const { id } of failed.slice(0, 2)) rig.simulator.addActivity(athleteId, { id });
    await press('Retry all');
    await page.getByRole('heading', { name: 'Retry 2 jobs?' }).waitFor();
    await confirm('Retry all');
    await told('2 jobs will be retried.');
    for (const { id } of failed.slice(0, 2)) await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await open(`/jobs?status=failed&athleteId=${athleteId}`);
    await page.getByText('1 job matches').waitFor();
  });

  it('are narrowed by the time of their last change, typed in the browser’s zone', async () => {
    const { jobId } = await fail();
    await open(`/jobs?athleteId=${athleteId}`);
    await page.getByLabel('Changed before').fill('2025-01-31T13:00');
    await press('Filter');
    await page.getByText('No job matches.').waitFor();
    const until = new URL(page.url()).searchParams.get('until') as string;
    expect(until).toBe(await page.evaluate(`new Date('2025-01-31T13:00').toISOString()`));
    expect(await page.getByLabel('Changed before').inputValue()).toBe('2025-01-31T13:00');
    await page.getByLabel('Changed before').fill('');
    await page.getByLabel('Changed from').fill('2025-01-31T13:00');
    await press('Filter');
    await page.getByRole('link', { name: jobId, exact: true }).waitFor();
  });

  it('are selected row by row, and only the selected ones are retried or deleted', async () => {
    const failed = [await fail(), await fail(), await fail()];
    const [kept, first, second] = failed.map(({ jobId }) => jobId) as [string, string, string];
    await open(`/jobs?athleteId=${athleteId}`);
    await page.getByLabel(`Select job ${first}`).check();
    await page.getByLabel(`Select job ${second}`).check();
    await page.getByText('2 jobs selected').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    for (const { id } of failed) rig.simulator.addActivity(athleteId, { id });
    await press('Retry selected');
    await confirm('Retry 2 jobs');
    await told('2 jobs retried.');
    for (const { id } of failed.slice(1)) await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await page.getByLabel(`Select job ${first}`).check();
    await press('Delete selected');
    expect(await page.getByRole('dialog').getByRole('button', { name: 'Delete 1 job' }).getAttribute('class')).toBe(
      'danger',
    );
    await confirm('Delete 1 job');
    await told('1 job deleted.');
    await page.getByLabel(`Select job ${first}`).waitFor({ state: 'detached' });
    expect((await rig.admin(`/api/admin/activity-jobs/${kept}`)).status).toBe(200);
    await page.getByLabel('Select all jobs on this page').check();
    await page.getByText('2 jobs selected').waitFor();
  });

  it('fit a phone’s screen', async () => {
    await fail();
    await fail(400);
    await page.setViewportSize(NARROW);
    await open(`/jobs?status=failed&athleteId=${athleteId}`);
    await page.getByRole('table', { name: 'Failures by error', exact: true }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
    expect(
      await page.evaluate(
        `[...document.querySelectorAll('.table')].map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)`,
      ),
    ).toEqual([0, 0]);
  });
});

describe('the history of a job', () => {
  it('shows every run with its start and duration, and who retried it', async () => {
    const { id, jobId } = await fail();
    rig.simulator.addActivity(athleteId, { id });
    await open(`/jobs/${jobId}`);
    const steps = page.locator('.timeline li');
    await steps.getByText('Requested, by admin token').waitFor();
    await press('Retry');
    await told(`Job ${jobId} will be retried.`);
    await steps.getByText('Succeeded: stored').waitFor();
    await steps.getByText('Retry, by browser session').waitFor();
    await steps.getByText('Failed for good: not found').waitFor();
    await steps.getByText(/HTTP 404.*Started \d\d:\d\d:\d\d .*, ran for \d+ ms\.$/).waitFor();
    expect(await findBarriers(page)).toEqual([]);
  });
});

describe('the keyboard', () => {
  it('opens a search by / that finds an athlete and an activity by name, and a job by its activity’s id', async () => {
    const { id } = rig.simulator.addActivity(athleteId, { name: 'Evening ride 100%' });
    const body = JSON.stringify({ activityId: id, athleteId });
    await rig.admin('/api/admin/activity-jobs', { method: 'POST', body });
    const { id: jobId } = await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    const search = async (text: string) => {
      await page.keyboard.press('/');
      const dialog = page.getByRole('dialog', { name: 'Search' });
      await dialog.getByLabel(/by id or name/).fill(text);
      await dialog.getByText(/found\. Enter opens the first|Nothing has this/).waitFor();
      return dialog;
    };
    await open('/deliveries');
    await page.getByRole('heading', { level: 1, name: 'Deliveries' }).waitFor();
    const byName = await search('RIDE 100%');
    expect(await findBarriers(page)).toEqual([]);
    await byName.getByRole('link', { name: `activity ${id} Evening ride 100%` }).click();
    await page.getByRole('heading', { level: 1, name: 'Evening ride 100%' }).waitFor();
    await search(id);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: `Job ${jobId}` }).waitFor();
    const athletes = await search('ada run');
    await athletes.getByRole('link', { name: `athlete ${athleteId} Ada Runner` }).click();
    await page.getByRole('heading', { level: 1, name: 'Ada Runner' }).waitFor();
    await search('no such thing');
    await page.getByText('Nothing has this id or name.').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  });

  it('shows its keys by ?, and types / and ? into a field', async () => {
    await open('/jobs');
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard' }).getByText('Show this help').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByLabel('Error contains').focus();
    await page.keyboard.type('/?');
    expect(await page.getByLabel('Error contains').inputValue()).toBe('/?');
    expect(await page.getByRole('dialog').count()).toBe(0);
  });
});

describe('ids', () => {
  it('are links with the athlete’s name beside them, in jobs and deliveries', async () => {
    rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    for (const at of ['/jobs', '/deliveries']) {
      await open(`${at}?athleteId=${athleteId}`);
      const row = page.getByRole('row').filter({ hasText: id });
      await row.getByText('Ada Runner').waitFor();
      expect(await row.getByRole('link', { name: athleteId }).getAttribute('href')).toBe(
        `/admin/athletes/${athleteId}`,
      );
      await row.getByRole('link', { name: id }).click();
      await page.getByText('Elapsed time').waitFor();
    }
  });
});

describe('deliveries', () => {
  it('are narrowed by result, also to refuted ones, and by time', async () => {
    await rig.service.database.query(
      `INSERT INTO webhook_event (object_type, object_id, aspect_type, owner_id, event_time, result, received_at)
       VALUES ('activity', 123456, 'delete', $1, '2025-01-31T12:00:00Z', 'refuted', '2025-01-31T12:00:00Z')`,
      [athleteId],
    );
    await open(`/deliveries?athleteId=${athleteId}`);
    await page.getByRole('link', { name: 'refuted' }).click();
    await page.getByRole('cell', { name: '123456' }).waitFor();
    await page.getByLabel('Received from').fill('2025-02-02T00:00');
    await press('Filter');
    await page.getByText('No delivery matches.').waitFor();
    await page.getByLabel('Received from').fill('2025-01-30T00:00');
    await press('Filter');
    await page.getByRole('cell', { name: '123456' }).waitFor();
  });
});

describe('deliveries that match', () => {
  it('are replayed together after a confirmation that gives the number, with progress', async () => {
    rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
    const ids = [
      (await rig.simulator.createActivityAndNotify(athleteId)).id,
      (await rig.simulator.createActivityAndNotify(athleteId)).id,
    ];
    for (const id of ids) await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await open('/deliveries');
    await page.getByLabel('Athlete').fill(athleteId);
    await press('Filter');
    await press('Replay all');
    await page.getByRole('heading', { name: 'Replay 2 activities?' }).waitFor();
    await confirm('Replay all');
    await told('Replay 2 activities: started. It continues if you leave.');
    await page.getByText('2 of 2 changed').waitFor();
    expect(await findBarriers(page)).toEqual([]);
  });
});

describe('a bulk change of more than 500 jobs', () => {
  it('runs in the background with progress, continues on another view, and can be cancelled', async () => {
    const { database } = rig.service;
    await database.query(`INSERT INTO fetch_pause (reason, paused_by, note) VALUES ('all', 'test', 'jobs stay')`);
    await putJobs(rig, athleteId, 1100);
    await open(`/jobs?athleteId=${athleteId}&status=pending`);
    await page.getByText('1,100 jobs match').waitFor();
    await database.transaction(async (tx) => {
      await tx.query('SELECT FROM athlete_schedule WHERE athlete_id = $1 FOR UPDATE', [athleteId]);
      await press('Delete all');
      await page.getByLabel('Type 1100 to continue').fill('1100');
      await confirm('Delete all');
      await told('Delete 1,100 jobs: started. It continues if you leave.');
      await page.getByRole('progressbar', { name: 'Delete 1,100 jobs' }).waitFor();
      expect(await findBarriers(page)).toEqual([]);
      await page.getByRole('link', { name: 'Athletes' }).click();
      await page.getByRole('link', { name: 'Jobs' }).click();
      await press('Cancel: Delete 1,100 jobs');
      await told('Delete 1,100 jobs: cancelled. What is changed stays.');
    });
    await page.getByText('500 of 1,100 changed').waitFor();
    await page.locator('.sync-head').getByText('cancelled').waitFor();
    await database.query('DELETE FROM fetch_pause');
  });
});
