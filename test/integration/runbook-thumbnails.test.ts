import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { createTestDatabase, openTestDatabase } from '../support/database.ts';

const root = join(import.meta.dirname, '../..');

describe('the command of the runbook about thumbnails', () => {
  it('requests the pictures of the last day again', async () => {
    const page = await readFile(join(root, 'docs/runbooks/polling.md'), 'utf8');
    const command = /--input-type=module -e "\n([\s\S]*?)"\n```/.exec(page)?.[1]?.replaceAll('\\"', '"') ?? '';
    const testDatabase = await createTestDatabase();
    const database = openTestDatabase(testDatabase.url);
    try {
      await database.query(`
        INSERT INTO activity (activity_id, athlete_id, name, sport_type, start_date, detail)
        SELECT id, 1, 'a ride', 'Ride', now(), '{}' FROM unnest('{5, 6}'::bigint[]) id;
        INSERT INTO thumbnail (activity_id, png, etag, size_px, rendered_at)
        VALUES (5, '', 'new', 256, now()), (6, '', 'old', 256, now() - interval '2 days')`);
      const env = { ...process.env, DATABASE_URL: testDatabase.url };
      await promisify(execFile)(process.execPath, ['--input-type=module', '-e', command], { cwd: root, env });
      expect(await database.query('SELECT activity_id, waiting FROM thumbnail_queue()')).toEqual([
        { activity_id: '5', waiting: true },
      ]);
    } finally {
      await database.close();
      await testDatabase.drop();
    }
  });
});
