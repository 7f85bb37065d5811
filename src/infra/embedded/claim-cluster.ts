import { link, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EmbeddedPostgresError } from './embedded-postgres-error.ts';
import { identifyProcess, isRunning, type ProcessIdentity } from './process-identity.ts';

/** The right to run the server of one cluster. */
export interface ClusterClaim {
  /** Gives the right back. Safe to call twice. */
  release(): Promise<void>;
}

/**
 * Makes this process the only one that runs the server of a cluster. Claims are numbered files beside it;
 * the highest number counts. The claim of a dead process is overtaken by creating the next number, which
 * only one of several contenders can do, so nobody ever removes a living claim.
 * @throws EmbeddedPostgresError `ALREADY_RUNNING` while the process of the present claim lives
 */
export async function claimCluster(clusterDir: string): Promise<ClusterClaim> {
  const folder = `${clusterDir}.claims`;
  await mkdir(folder, { recursive: true });
  const draft = join(folder, `draft-${process.pid}-${crypto.randomUUID()}`);
  await writeFile(draft, JSON.stringify(identifyProcess(process.pid)), { mode: 0o644 });
  try {
    for (;;) {
      const highest = (await listClaims(folder)).at(-1) ?? 0;
      if (highest > 0) await refuseWhileClaimantLives(folder, highest, clusterDir);
      const own = highest + 1;
      if (!(await createClaim(draft, claimPath(folder, own)))) continue;
      const claims = await listClaims(folder);
      // Between the listing and the creation others may have come, gone or died: the highest number decides.
      const outrun = claims.some((number) => number > own);
      const superfluous = outrun ? [own] : claims.filter((number) => number < own);
      await Promise.all(superfluous.map((number) => rm(claimPath(folder, number), { force: true })));
      if (!outrun) return { release: () => rm(claimPath(folder, own), { force: true }) };
    }
  } finally {
    await rm(draft, { force: true });
  }
}

async function refuseWhileClaimantLives(folder: string, number: number, clusterDir: string): Promise<void> {
  const claimant = await readClaim(claimPath(folder, number));
  if (claimant === undefined || !isRunning(claimant)) return;
  const who = claimant.pid === process.pid ? 'this process itself' : `the process ${claimant.pid}`;
  throw new EmbeddedPostgresError(
    'ALREADY_RUNNING',
    `The embedded PostgreSQL of ${clusterDir} is already run by ${who}. Stop that process first (kill ${claimant.pid}), give this one a DATA_DIR of its own, or set DATABASE_URL to one server for both.`,
  );
}

async function listClaims(folder: string): Promise<number[]> {
  return (await readdir(folder))
    .map((name) => Number(/^claim-([0-9]+)$/.exec(name)?.[1] ?? 0))
    .filter((number) => number > 0)
    .sort((a, b) => a - b);
}

async function readClaim(path: string): Promise<ProcessIdentity | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as ProcessIdentity;
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
