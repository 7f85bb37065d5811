import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { getRollbackPlans } from 'pg-boss';
import type { Service } from '../../src/compose.ts';
import { BOSS_SCHEMA_VERSION } from '../../src/infra/boss.ts';
import type { Database } from '../../src/infra/database.ts';
import { createSilentLogger } from '../../src/infra/logger.ts';
import { migrate } from '../../src/infra/migrate.ts';
import { MigrationError } from '../../src/infra/schema/migration-error.ts';
import { type Release, THIS_RELEASE } from '../../src/infra/schema/release.ts';
import { createTestDatabase, createTestRole, openTestDatabase } from '../support/database.ts';
import { describeSchema } from '../support/describe-schema.ts';
import { keepLog } from '../support/kept-log.ts';
import { makeRelease } from '../support/next-release.ts';
import { type Rig, startRig, testEnvironment } from '../support/service.ts';
import { freePort, startServiceProcess } from '../support/service-process.ts';
import { until } from '../support/until.ts';

const COMPATIBLE = {
  'migrations/0901-activity-note.sql':
    '-- compatible: a column that the release before does not write\nALTER TABLE activity ADD COLUMN note text;',
  'functions/view-note.sql': `CREATE OR REPLACE FUNCTION note_of(p_activity_id bigint) RETURNS text LANGUAGE sql STABLE
    AS $$ SELECT note FROM activity WHERE activity_id = p_activity_id $$;`,
};
const BREAKING = {
  'migrations/0902-no-thumbnails.sql':
    '-- breaking: the release before writes thumbnails\nDROP TABLE thumbnail CASCADE;',
};

let rig: Rig;
let database: Database;
let athlete: string;
const releases: { remove(): Promise<void> }[] = [];
beforeEach(async () => {
  rig = await startRig();
  database = openTestDatabase(rig.database.url);
  rig.simulator.subscribe(`${rig.service.url}/api/provider/webhook`);
  athlete = await rig.connectAthlete();
});
afterEach(async () => {
  await database.close();
  await rig.close();
  for (const release of releases.splice(0)) await release.remove();
});

async function makeNext(version: string, files: Record<string, string>): Promise<Release> {
  const release = await makeRelease(version, files);
  releases.push(release);
  return release;
}
const migrateTo = (release: Release, logger = createSilentLogger()) =>
  migrate({ connectionString: rig.database.url, logger, release });
const start = (release: Release) => rig.startReplica({}, undefined, { release });
const readiness = async (service: Service) => (await fetch(`${service.url}/readyz`)).status;
const functionsRelease = async () =>
  (await database.query<{ release: string }>('SELECT release FROM schema_functions'))[0]?.release;

/** Delivers a webhook to one process and waits until some running process has stored its activity. */
async function syncOneThrough(service: Service): Promise<void> {
  const { id } = rig.simulator.addActivity(athlete);
  const url = `${service.url}/api/provider/webhook`;
  const { status } = await rig.simulator.deliver({ object_id: id, owner_id: athlete }, { url });
  expect(status).toBe(200);
  const isStored = async () => (await database.query('SELECT FROM activity WHERE activity_id = $1', [id])).length === 1;
  await until(isStored, `the fetch of activity ${id}`);
}

describe('two releases on one database', () => {
  it('serve side by side, and the older one starts again on the newer one’s schema without changing it', async () => {
    const older = rig.service;
    const next = await makeNext('0.10.0', COMPATIBLE);
    await migrateTo(next);
    expect(await functionsRelease()).toBe('0.10.0');
    await syncOneThrough(older);
    const newer = await start(next);
    expect([await readiness(older), await readiness(newer)]).toEqual([200, 200]);
    await syncOneThrough(older);
    await syncOneThrough(newer);
    await older.stop(1000);
    await syncOneThrough(newer);

    const schema = await describeSchema(database);
    const log = keepLog();
    await migrateTo(THIS_RELEASE, log.logger);
    const rolledBack = await rig.startReplica({}, undefined, { release: THIS_RELEASE, logger: log.logger });
    expect(await describeSchema(database)).toBe(schema);
    expect(await functionsRelease()).toBe('0.10.0');
    const said = log.lines.filter((line) => line.includes('newer release')).map((line) => JSON.parse(line));
    expect(said).toMatchObject([{ message: 'schema of a newer release in use', migrations: '0901-activity-note.sql' }]);
    await syncOneThrough(rolledBack);
    await newer.stop(1000);
    await syncOneThrough(rolledBack);
    expect(await readiness(rolledBack)).toBe(200);
  });

  it('do not serve side by side where the newer one’s migration is breaking: the older one is not ready and does not start', async () => {
    const next = await makeNext('0.10.0', BREAKING);
    await migrateTo(next);
    const answer = await fetch(`${rig.service.url}/readyz`);
    expect([answer.status, await answer.json()]).toMatchObject([
      503,
      { schema: expect.stringContaining('0902-no-thumbnails.sql') },
    ]);
    await expect(migrateTo(THIS_RELEASE)).rejects.toThrow(MigrationError);
    await expect(start(THIS_RELEASE)).rejects.toThrow(
      /newer release \(it has 0902-no-thumbnails\.sql\).*Start the newer release, or restore a backup/,
    );
    const { code, output } = await startProgram({ DATABASE_URL: rig.database.url, LOG_LEVEL: 'error' });
    expect({ code, lines: output.trimEnd().split('\n') }).toEqual({
      code: 1,
      lines: [expect.stringMatching(/^The database was migrated by a newer release/)],
    });
  });

  it('have the functions of the newer one, also where no migration is new', async () => {
    const next = await makeNext('0.10.0', {
      'functions/view-answer.sql':
        'CREATE OR REPLACE FUNCTION answer() RETURNS integer LANGUAGE sql AS $$ SELECT 42 $$;',
    });
    await migrateTo(next);
    await migrateTo(THIS_RELEASE);
    expect(await functionsRelease()).toBe('0.10.0');
    await syncOneThrough(await start(THIS_RELEASE));
  });
});

describe('a newer schema of pg-boss', () => {
  const raise = () => database.query('UPDATE pgboss.version SET version = version + 1');

  it('serves an older release when a compatible migration announces it', async () => {
    await migrateTo(
      await makeNext('0.10.0', {
        [`migrations/0901-pg-boss-${BOSS_SCHEMA_VERSION + 1}.sql`]: '-- compatible: pg-boss adds columns\n',
      }),
    );
    await raise();
    await rig.service.stop(1000);
    const rolledBack = await start(THIS_RELEASE);
    await syncOneThrough(rolledBack);
    expect(await rolledBack.boss.schemaVersion()).toBe(BOSS_SCHEMA_VERSION + 1);
  });

  it('is refused where nothing says that it is compatible', async () => {
    await raise();
    await expect(start(THIS_RELEASE)).rejects.toThrow(
      `pg-boss's schema has version ${BOSS_SCHEMA_VERSION + 1}; release ${THIS_RELEASE.version} knows version ${BOSS_SCHEMA_VERSION}`,
    );
    await expect(migrateTo(THIS_RELEASE)).rejects.toThrow(MigrationError);
  });
});

describe('an older schema of pg-boss', () => {
  it('is upgraded by migrate, with its indexes, and not by a start', async () => {
    await rig.service.stop(1000);
    await database.query(getRollbackPlans('pgboss', BOSS_SCHEMA_VERSION));
    await expect(start(THIS_RELEASE)).rejects.toThrow(
      `The database lacks version ${BOSS_SCHEMA_VERSION} of pg-boss's schema. Run "npm run migrate" first`,
    );
    await migrateTo(THIS_RELEASE);
    const started = await start(THIS_RELEASE);
    expect(await started.boss.schemaVersion()).toBe(BOSS_SCHEMA_VERSION);
    expect(await started.boss.getBamStatus()).toEqual([expect.objectContaining({ status: 'completed' })]);
    await syncOneThrough(started);
  }, 120_000);
});

describe('MIGRATE_ON_START=false', () => {
  it('stops a start on a database that is not migrated, and says what to run', async () => {
    const empty = await createTestDatabase({ template: false });
    const settings = { DATABASE_URL: empty.url, MIGRATE_ON_START: 'false', LOG_LEVEL: 'error' };
    const { code, output } = await startProgram(settings);
    expect({ code, output }).toEqual({
      code: 1,
      output: expect.stringMatching(/^The database lacks 0001-baseline\.sql.*Run "npm run migrate" first.*\n$/),
    });
    await empty.drop();
  });

  it('lets a role serve that may not change the schema, which migrate grants what it needs', async () => {
    const role = await createTestRole();
    const runtime = new URL(rig.database.url);
    Object.assign(runtime, { username: role.name, password: role.password });
    await migrate({ connectionString: runtime.href, migrationUrl: rig.database.url, logger: createSilentLogger() });
    await rig.service.stop(1000);
    const log = keepLog('warn');
    const service = await rig.startReplica({}, undefined, { connectionString: runtime.href, logger: log.logger });
    await syncOneThrough(service);
    await until(async () => (await database.query('SELECT FROM thumbnail')).length === 1, 'the thumbnail');
    await service.boss.supervise();
    await expect(service.database.query('CREATE TABLE intruder ()')).rejects.toThrow('permission denied');
    await expect(service.database.query('DELETE FROM schema_migration')).rejects.toThrow('permission denied');
    await service.stop(1000);
    expect(log.lines.filter((line) => /pg-boss|permission/.test(line))).toEqual([]);
    await database.close();
    await rig.close();
    await role.drop();
  });
});

/** Starts the program, which is expected to end. */
async function startProgram(env: Record<string, string>): Promise<{ code: number | null; output: string }> {
  const started = startServiceProcess(
    testEnvironment('http://127.0.0.1:1', { PORT: String(await freePort()), ...env }),
  );
  const [code] = (await once(started.child, 'close')) as [number | null];
  return { code, output: started.output() };
}
