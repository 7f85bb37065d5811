import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { startBrowser } from '../support/browser.ts';
import { NARROW, openConsole, startReachableRig } from '../support/console.ts';
import type { Rig } from '../support/service.ts';
import { until } from '../support/until.ts';

let rig: Rig;
let browser: Browser;
beforeAll(async () => {
  [rig, browser] = await Promise.all([startReachableRig(), startBrowser()]);
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await rig?.close();
});

async function read(
  at: string,
  use: (page: Page) => Promise<void>,
  context: BrowserContextOptions = {},
): Promise<void> {
  const { page, close } = await openConsole(browser, rig.service.url, { at, context });
  try {
    await use(page);
  } finally {
    await close();
  }
}

describe('what the operator on call reads', () => {
  it('shows the provider’s answer in each row of failed jobs', async () => {
    const athleteId = await rig.connectAthlete('Ada Runner');
    const missing = { activityId: '10000000404', athleteId };
    await rig.admin('/api/admin/activity-jobs', { method: 'POST', body: JSON.stringify(missing) });
    await rig.untilJob(missing.activityId, ({ status }) => status === 'failed');
    await read('/jobs?status=failed', async (page) => {
      const error = page.getByRole('row', { name: missing.activityId }).locator('.error-text');
      expect(await error.getAttribute('title')).toMatch(/^GET \/api\/v3\/activities\/10000000404: the provider/);
      // The words that matter end above the last line, whose end the ellipsis may take.
      const isInSight = await page.evaluate(`(() => {
        const element = document.querySelector('.error-text');
        const text = element.firstChild;
        const range = document.createRange();
        range.setStart(text, 0);
        range.setEnd(text, text.data.indexOf('HTTP 404') + 'HTTP 404'.length);
        const words = range.getClientRects();
        const last = words[words.length - 1];
        return last.bottom + last.height / 2 < element.getBoundingClientRect().bottom;
      })()`);
      expect(isInSight).toBe(true);
    });
  });

  it('shows each value in full on a chart’s axis, even for long waits', async () => {
    await rig.service.database.query(
      `INSERT INTO history (minute, measure, bucket, n)
       SELECT date_trunc('minute', sync_now()) - m * interval '1 minute', measure, 300, 4
       FROM generate_series(2, 50) AS m, unnest('{stored,wait:webhook}'::text[]) AS measure`,
    );
    await read('', async (page) => {
      await page.locator('canvas').nth(2).waitFor();
      // A value that is cut off has ink at the left edge.
      const inkAtEdge = await page.evaluate(`[...document.querySelectorAll('canvas')].map((canvas) =>
        canvas.getContext('2d').getImageData(0, 0, 1, canvas.height).data.reduce((sum, value) => sum + value, 0))`);
      expect(inkAtEdge).toEqual([0, 0, 0]);
    });
  });

  it('has whole numbers of jobs, seconds, minutes or hours on a chart’s axis', async () => {
    const { database } = rig.service;
    await read('', async (page) => {
      await page.addInitScript(`
        globalThis.written = [];
        const write = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
          written.push(text);
          return write.call(this, text, ...at);
        };
      `);
      // Each span is read separately, and cached for some seconds.
      for (const [hours, slowest, ticks] of [
        [3, 300, '2 min'],
        [24, 10_800, '1 h'],
      ] as const) {
        await database.query('DELETE FROM history');
        await database.query(
          `INSERT INTO history (minute, measure, bucket, n)
           SELECT date_trunc('minute', sync_now()) - m * interval '1 minute', measure, $1, 4
           FROM generate_series(2, 20) AS m, unnest('{stored,wait:webhook}'::text[]) AS measure`,
          [slowest],
        );
        await page.goto(`${rig.service.url}/admin?hours=${hours}`);
        let values: string[] = [];
        await until(async () => {
          values = await page.evaluate('written');
          return values.includes(ticks);
        }, `a tick of ${ticks}`);
        const clocks = /^\d\d:\d\d$/;
        expect(values.filter((value) => !clocks.test(value) && !/^\d+( ms| s| min| h)?$/.test(value))).toEqual([]);
      }
    });
  });

  it('names the zone of each time, and a typed day is a day in that zone', async () => {
    const athleteId = await rig.connectAthlete('Bo Rider');
    const inIndia = { locale: 'en-GB', timezoneId: 'Asia/Kolkata' };
    await read(
      `/athletes/${athleteId}`,
      async (page) => {
        await page.getByText(/^\d\d:\d\d:\d\d GMT\+5:30$/).waitFor();
        await page.getByLabel('After (optional)').fill('2025-01-02');
        const begun = page.waitForRequest((request) => request.method() === 'POST');
        await page.getByRole('button', { name: 'Sync', exact: true }).click();
        expect((await begun).postDataJSON()).toEqual({ after: '2025-01-01T18:30:00.000Z' });
        await page.getByRole('link', { name: 'Overview' }).click();
        await page.getByText(/^\d\d:\d\d – \d\d:\d\d GMT\+5:30$/).waitFor();
        await page
          .locator('.chart figcaption')
          .first()
          .getByText(/^last full step, \d\d:\d\d – \d\d:\d\d GMT\+5:30$/)
          .waitFor();
      },
      inIndia,
    );
  });

  it('names the athlete without activities when others have some', async () => {
    await read('/activities?athleteId=424242', async (page) => {
      await page.getByText('No activity of this athlete is stored.').waitFor();
    });
    await read('/activities', async (page) => {
      await page.getByText('No activity is stored yet.').waitFor();
    });
  });
});

describe('long text, and a phone’s screen', () => {
  const LONG = 'Wolfeschlegelsteinhausenbergerdorff'.repeat(3);
  const onPhone = { viewport: NARROW };

  it('fits: a name, and why an athlete must reconnect', async () => {
    const athleteId = await rig.connectAthlete(LONG);
    await rig.service.database.query(
      `UPDATE athlete SET state = 'reconnect', state_detail = $2 WHERE athlete_id = $1`,
      [athleteId, `the provider answered ${LONG}`],
    );
    await read('/athletes', async (page) => {
      await page.getByRole('link', { name: LONG }).waitFor();
      expect(
        await page.evaluate(`(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(
        document.querySelector('.table'))`),
      ).toBe(0);
    });
    await read(
      `/athletes/${athleteId}`,
      async (page) => {
        await page.getByText('they must reconnect').or(page.getByText('the provider answered')).first().waitFor();
        expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
      },
      onPhone,
    );
  });

  it('keeps each id in one piece, and shows who made each change and for which athlete', async () => {
    const athleteId = await rig.connectAthlete('Cleo Walker');
    await rig.admin('/api/admin/webhooks', { method: 'POST', body: '{}' });
    const { id } = await rig.simulator.createActivityAndNotify(athleteId);
    await rig.untilJob(id, ({ outcome }) => outcome === 'stored');
    await rig.admin(`/api/admin/athletes/${athleteId}/sync`, { method: 'POST', body: '{}' });
    for (const at of ['/jobs', '/deliveries', '/subscriptions']) {
      await read(
        at,
        async (page) => {
          await page.locator('td .id').first().waitFor();
          const lines = await page.evaluate(
            `[...document.querySelectorAll('td .id')].map((id) => id.getClientRects().length)`,
          );
          expect([at, new Set(lines as number[])]).toEqual([at, new Set([1])]);
          expect([
            at,
            await page.evaluate(`(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(
              document.querySelector('.table'))`),
          ]).toEqual([at, 0]);
        },
        onPhone,
      );
    }
    await read(
      '/audit',
      async (page) => {
        const row = page.getByRole('row').filter({ hasText: 'athletes/:id/sync' }).filter({ hasText: athleteId });
        await row
          .getByText(/^admin token · /)
          .first()
          .waitFor();
        // The time takes two lines, not three.
        const { height } = (await row.first().locator('time').boundingBox()) ?? { height: 0 };
        expect(height).toBeLessThan(50);
      },
      onPhone,
    );
  });
});
