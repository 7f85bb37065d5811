import { expect, it } from '@jest/globals';
import { runApplicationChaos } from '../support/application-chaos.ts';
import { createTestDatabase } from '../support/database.ts';

it('an application receives every change, in each athlete’s order, while it and the service are killed', async () => {
  const database = await createTestDatabase();
  try {
    const result = await runApplicationChaos({
      databaseUrl: database.url,
      activities: 200,
      serviceKills: 2,
      applicationKills: 1,
    });
    expect(result).toMatchObject({ gaps: 0, invented: 0, differences: 0, undelivered: 0, outOfOrder: 0 });
    expect(result.changes).toBeGreaterThan(100); // what is deleted before it is fetched makes none
  } finally {
    await database.drop();
  }
}, 240_000);
