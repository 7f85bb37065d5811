import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { startBrowser } from '../support/browser.ts';
import { type ConsolePage, findBarriers, openConsole, startReachableRig } from '../support/console.ts';
import type { Rig } from '../support/service.ts';

let rig: Rig;
let browser: Browser;
let opened: ConsolePage;
let page: Page;
let athleteId: string;

beforeAll(async () => {
  [rig, browser] = await Promise.all([startReachableRig(), startBrowser()]);
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
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

/** An activity arrives by a webhook and is stored. @returns its id, and its job's */
async function arrive(): Promise<{ id: string; jobId: string }> {
  const { id } = await rig.simulator.createActivityAndNotify(athleteId);
  return { id, jobId: (await rig.untilJob(id, ({ outcome }) => outcome === 'stored')).id };
}

let nextId = 9_007_199_254_740_993n; // beyond what a double holds

/** A job that failed, since the provider knows no such activity. */
async function fail(): Promise<{ id: string; jobId: string }> {
  const id = String(nextId);
  nextId += 2n;
  const body = JSON.stringify({ activityId: id, athleteId });
  await rig.admin('/api/admin/activity-jobs', { method: 'POST', body });
  return { id, jobId: (await rig.untilJob(id, ({ status }) => status === 'failed')).id };
}

const callsFor = (id: string) => rig.simulator.calls.filter(({ path }) => path.endsWith(`/activities/${id}`)).length;

describe('one job', () => {
  it('is found by the id of its activity, exact to the last digit, and retried', async () => {
    const { id, jobId } = await fail();
    rig.simulator.addActivity(athleteId, { id });
    await open('/jobs');
    await page.getByLabel('Find by id').fill(id);
    await press('Find');
    await page.getByRole('heading', { level: 1, name: `Job ${jobId}` }).waitFor();
    await page.getByText('Failed for good').waitFor();
    await press('Retry');
    await told(`Job ${jobId} will be retried.`);
    await page.getByText('Ended: stored').waitFor();
    await page.getByRole('link', { name: id, exact: true }).click();
    await page.getByText('Elapsed time').waitFor();
  });

  it('re-fetches what is stored, from its page, its row and its activity', async () => {
    const { id, jobId } = await arrive();
    const before = callsFor(id);
    await open(`/jobs/${jobId}`);
    await press('Force re-fetch');
    await told(/re-fetches activity/);
    await rig.simulator.waitForCall(() => callsFor(id) === before + 1);
    await rig.untilJob(id, ({ status }) => status === 'done');
    await open(`/jobs?athleteId=${athleteId}`);
    await press(`Force re-fetch for job ${jobId}`);
    await rig.simulator.waitForCall(() => callsFor(id) === before + 2);
    await rig.untilJob(id, ({ status }) => status === 'done');
    await open(`/activities/${id}`);
    await press('Fetch again');
    await rig.simulator.waitForCall(() => callsFor(id) === before + 3);
  });

  it('is deleted after a confirmation, and not after a refusal', async () => {
    const { jobId } = await fail();
    await open(`/jobs/${jobId}`);
    await press('Delete');
    await page.getByRole('dialog').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    expect((await rig.admin(`/api/admin/activity-jobs/${jobId}`)).status).toBe(200);
    await press('Delete');
    await confirm('Delete');
    await told(`Job ${jobId} deleted.`);
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
    expect((await rig.admin(`/api/admin/activity-jobs/${jobId}`)).status).toBe(404);
  });

  it('says when it will run and why not sooner', async () => {
    const fault = rig.simulator.faults.add({ kind: 'status', status: 503, match: { athleteId } });
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    const job = await rig.untilJob(id, ({ attempts }) => attempts === 1);
    fault.remove();
    await open(`/jobs?activityId=${id}`);
    await page.getByRole('cell', { name: /^in ≥ \d+ s$/ }).waitFor();
    await open(`/jobs/${job.id}`);
    await page
      .getByText(
        /^Runs in \d+ s at the earliest \(\d\d:\d\d [^)]+\): its last attempt failed; it waits for the backoff\.$/,
      )
      .waitFor();
    await page.getByText('Failed; to be retried').waitFor();
    await page.getByText('Webhook: create').waitFor();
    await press('Retry');
    await page.getByText('Ended: stored').waitFor();
  });
});

describe('all jobs that match', () => {
  it('are retried, re-fetched and deleted after a confirmation that gives their number', async () => {
    const failed = [await fail(), await fail(), await fail()];
    await open('/jobs');
    await page.getByLabel('Athlete').fill(athleteId);
    await press('Filter');
    await page.getByRole('link', { name: /^failed/ }).click();
    await page.getByText('3 jobs match').waitFor();
    expect(page.url()).toContain(`/admin/jobs?athleteId=${athleteId}&status=failed`);

    for (const { id } of failed.slice(0, 2)) rig.simulator.addActivity(athleteId, { id });
    await press('Retry all');
    await page.getByRole('heading', { name: 'Retry 3 jobs?' }).waitFor();
    await confirm('Retry all');
    await told('3 jobs will be retried.');
    await page.getByText('1 job matches').waitFor();

    await page.getByRole('link', { name: /^done/ }).click();
    await page.getByText('2 jobs match').waitFor();
    const before = failed.map(({ id }) => callsFor(id));
    await press('Force re-fetch all');
    await confirm('Re-fetch all');
    await told('2 activities will be re-fetched.');
    await rig.simulator.waitForCall(() => failed.slice(0, 2).every(({ id }, n) => callsFor(id) > Number(before[n])));
    for (const { id } of failed.slice(0, 2)) await rig.untilJob(id, ({ status }) => status === 'done');

    await page.getByText('2 jobs match').waitFor();
    await press('Delete all');
    await page.getByRole('heading', { name: 'Delete 2 jobs?' }).waitFor();
    await confirm('Delete all');
    await told('2 jobs deleted.');
    await page.getByText('No job matches.').waitFor();
    await page.goBack();
    await page.getByText('1 job matches').waitFor();
  });
});

describe('more than a hundred jobs', () => {
  it('are deleted only after their number is typed, with a red button', async () => {
    for (let count = 0; count < 101; count += 1) {
      const body = JSON.stringify({ activityId: String(5_000_000 + count), athleteId });
      await rig.admin('/api/admin/activity-jobs', { method: 'POST', body });
    }
    await open(`/jobs?athleteId=${athleteId}&status=failed`);
    await page.getByText('101 jobs match').waitFor({ timeout: 30_000 });
    await press('Delete all');
    const sure = page.getByRole('dialog').getByRole('button', { name: 'Delete all' });
    expect(await sure.isDisabled()).toBe(true);
    expect(await sure.getAttribute('class')).toBe('danger');
    expect(await findBarriers(page)).toEqual([]);
    await page.getByLabel('Type 101 to continue').fill('101');
    await confirm('Delete all');
    await told('101 jobs deleted.');
  }, 60_000);
});

describe('athletes', () => {
  it('are all synced only after a confirmation that gives the calls needed and the expected end', async () => {
    rig.simulator.addHistory(athleteId, 2);
    await open('/athletes');
    await press('Sync all athletes');
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/at least \d+ calls? of the provider’s budget.*Expected end: /).waitFor();
    expect(await dialog.getByRole('button', { name: 'Sync all athletes' }).getAttribute('class')).toBe('primary');
    await confirm('Cancel');
    await told('Nothing was started.');
    expect(await page.getByText(/^Sync \d+ has started/).count()).toBe(0);
    await press('Sync all athletes');
    await confirm('Sync all athletes');
    await told(/^Sync \d+ has started/);
  });

  it('are synced with progress, and the sync can be cancelled', async () => {
    rig.simulator.addHistory(athleteId, 3);
    await open('/athletes');
    await page.getByRole('row').filter({ hasText: athleteId }).getByRole('link', { name: 'Ada Runner' }).click();
    await press('Sync');
    await told(/^Sync \d+ has started/);
    await page.getByText('3 activities listed, 3 queued, 3 fetched').waitFor();

    const fault = rig.simulator.faults.add({ kind: 'status', status: 503, match: { athleteId } });
    await press('Sync');
    await page.getByRole('progressbar').waitFor();
    await page.getByRole('button', { name: /^Cancel sync/ }).click();
    await told(/^Sync \d+ cancelled/);
    await page.getByText('cancelled', { exact: true }).waitFor();
    fault.remove();
  });

  it('are erased once their id is typed', async () => {
    await arrive();
    await open(`/athletes/${athleteId}`);
    await press('Disconnect and erase');
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button', { name: 'Erase' }).isDisabled()).toBe(true);
    await dialog.getByLabel(`Type ${athleteId} to continue`).fill(athleteId);
    await confirm('Erase');
    await told(`Athlete ${athleteId} erased.`);
    await page.getByRole('heading', { level: 1, name: 'Athletes' }).waitFor();
    expect((await rig.admin(`/api/admin/athletes/${athleteId}`)).status).toBe(404);
  });

  it('who must reconnect are shown with the link to do it', async () => {
    await rig.service.database.query(`UPDATE athlete SET state = 'reconnect' WHERE athlete_id = $1`, [athleteId]);
    await open('/');
    await page.getByRole('link', { name: /must reconnect/ }).click();
    await page.getByRole('row').filter({ hasText: athleteId }).getByRole('link').click();
    await page.getByRole('link', { name: 'Reconnect' }).waitFor();
  });
});

describe('deliveries and subscriptions', () => {
  it('a delivery is replayed', async () => {
    const { id, jobId } = await arrive();
    const before = callsFor(id);
    await open(`/deliveries?activityId=${id}`);
    await page.getByRole('button', { name: /^Replay delivery/ }).click();
    await told(`Job ${jobId} replays it.`);
    await rig.simulator.waitForCall(() => callsFor(id) === before + 1);
  });

  it('a subscription is deleted and created, and the doctor explains the effect', async () => {
    await open('/subscriptions');
    await page.getByRole('button', { name: /^Delete subscription/ }).click();
    await confirm('Delete');
    await told('1 subscription deleted.');
    await page.getByText('The provider has no subscription.').waitFor();
    await press('Create');
    await told(/^Subscription \d+ calls/);
    await page.getByText('nothing needs doing').waitFor();
    await open('/audit');
    await page
      .getByRole('row')
      .filter({ hasText: 'DELETE webhooks' })
      .getByRole('cell', { name: 'browser session', exact: true })
      .waitFor();
  });
});

describe('an error', () => {
  it('is said in the service’s own words', async () => {
    const { jobId } = await fail();
    await open(`/jobs/${jobId}`);
    await page.getByText('Failed for good').waitFor();
    await press('Pause'); // or the page may hear of the deletion first, and offer nothing more
    await rig.admin(`/api/admin/activity-jobs/${jobId}`, { method: 'DELETE' });
    await press('Retry');
    await page.getByRole('alert').getByText(`There is no job ${jobId}.`).first().waitFor();
    await open('/nowhere');
    await page.getByText('This view does not exist.').waitFor();
  });
});
