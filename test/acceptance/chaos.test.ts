import { describe, expect, it } from '@jest/globals';
import { runChaos } from '../support/chaos.ts';

describe('events posted while service and database are killed with SIGKILL', () => {
  it('each one that got its 200 ends as exactly one stored activity', async () => {
    const result = await runChaos({ events: 600, serviceKills: 2, databaseKills: 1 });
    expect(result).toMatchObject({ accepted: 600, stored: 600, unfinished: [], doubled: 0 });
    // A run that was cut off is made again: one more call for each crash and slot at the most.
    expect(result.detailCalls).toBeLessThanOrEqual(600 + 3 * 3);
  }, 90_000);
});
