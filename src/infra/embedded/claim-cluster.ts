import { link, mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import type { WriteLog } from './embedded-postgres-log.ts';
import { exists, inheritOwner } from './folders.ts';
import { identifyProcess, isRunning, type ProcessIdentity, readProcessSpace } from './process-identity.ts';

/** The right to run the server of one cluster. */
export interface ClusterClaim {
  /** Gives the right back. Safe to call twice. */
  release(): Promise<void>;
}

interface Claimant extends ProcessIdentity {
  /** The machine or container that the process number belongs to. */
  space: string;
}

const HEARTBEAT_MS = 2000;
const SILENT_BEATS_MEAN_DEAD = 3;

/**
 * Makes this process the only one that runs the server of a cluster. Claims are numbered files beside it;
 * the highest number counts. The claim of a dead process is overtaken by creating the next number, which
 * only one of several contenders can do, so nobody ever removes a living claim.
 * @param heartbeatMs how often a claim shows that it is alive; the same for all contenders
 * @throws EmbeddedPostgresError `ALREADY_RUNNING` while the process of the present claim lives
 */
export async function claimCluster(
  clusterDir: string,
  log: WriteLog,
  heartbeatMs: number = HEARTBEAT_MS,
): Promise<ClusterClaim> {
  const folder = `${clusterDir}.claims`;
  if (!(await exists(folder))) {
    await mkdir(folder, { recursive: true });
    await inheritOwner(folder);
  }
  const draft = join(folder, `draft-${crypto.randomUUID()}`);
  await writeFile(draft, JSON.stringify({ ...identifyProcess(process.pid), space: readProcessSpace() }));
  await inheritOwner(draft);
  try {
    for (;;) {
      const highest = (await listClaims(folder)).at(-1) ?? 0;
      if (highest > 0) await refuseWhileClaimantLives(claimPath(folder, highest), clusterDir, log, heartbeatMs);
      const own = highest + 1;
      if (!(await createClaim(draft, claimPath(folder, own)))) continue;
      const claims = await listClaims(folder);
      // Between the listing and the creation others may have come, gone or died: the highest number decides.
      const outrun = claims.some((number) => number > own);
      const superfluous = outrun ? [own] : claims.filter((number) => number < own);
      await Promise.all(superfluous.map((number) => rm(claimPath(folder, number), { force: true })));
      if (!outrun) return keepClaim(claimPath(folder, own), log, heartbeatMs);
    }
  } finally {
    await rm(draft, { force: true });
  }
}

/** Shows with a heartbeat that the claim is alive, to whoever cannot see this process: another container or machine. */
function keepClaim(path: string, log: WriteLog, heartbeatMs: number): ClusterClaim {
  const beat = () => {
    const now = new Date();
    utimes(path, now, now).catch((error: Error) => log('warn', `the claim ${path} is lost: ${error.message}`));
  };
  const timer = setInterval(beat, heartbeatMs).unref();
  return {
    release: async () => {
      clearInterval(timer);
      await rm(path, { force: true });
    },
  };
}

async function refuseWhileClaimantLives(
  path: string,
  clusterDir: string,
  log: WriteLog,
  heartbeatMs: number,
): Promise<void> {
  const claimant = await readClaim(path);
  if (claimant === undefined) return;
  const isVisible = claimant.space === readProcessSpace();
  if (isVisible ? !isRunning(claimant) : !(await hasHeartbeat(path, log, heartbeatMs))) return;
  const who = claimant.pid === process.pid && isVisible ? 'this process itself' : `process ${claimant.pid}`;
  const where = isVisible ? '' : ` on ${claimant.space.split(' ')[0]} (another machine or container)`;
  throw new EmbeddedPostgresError(
    'ALREADY_RUNNING',
    `The embedded PostgreSQL of ${clusterDir} is already run by ${who}${where}. Stop that process first, give this one a DATA_DIR of its own, or set DATABASE_URL to one server for both.`,
  );
}

async function hasHeartbeat(path: string, log: WriteLog, heartbeatMs: number): Promise<boolean> {
  const patienceMs = SILENT_BEATS_MEAN_DEAD * heartbeatMs;
  log('info', `waiting ${patienceMs / 1000} s to see whether another machine or container runs PostgreSQL`);
  const before = await readHeartbeat(path);
  await delay(patienceMs);
  const after = await readHeartbeat(path);
  return after !== undefined && after !== before;
}

async function readHeartbeat(path: string): Promise<number | undefined> {
  return (await exists(path)) ? (await stat(path)).mtimeMs : undefined;
}

async function listClaims(folder: string): Promise<number[]> {
  return (await readdir(folder))
    .map((name) => Number(/^claim-([0-9]+)$/.exec(name)?.[1] ?? 0))
    .filter((number) => number > 0)
    .sort((a, b) => a - b);
}

async function readClaim(path: string): Promise<Claimant | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Claimant;
  } catch (error) {
    // Released in the meantime, or cut short by a crash of the whole machine: nobody lives behind it.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Creates the claim complete with its content, or returns false when the number is taken. */
async function createClaim(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function claimPath(folder: string, number: number): string {
  return join(folder, `claim-${number}`);
}
