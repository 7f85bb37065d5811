import type { Queryable } from '../infra/database.ts';

/** The run no longer holds its job (reclaimed, or deleted): its result must not be written. */
export class ClaimLostError extends Error {
  override name = 'ClaimLostError';
  readonly code = 'CLAIM_LOST';
  constructor(job: string) {
    super(`The run of job ${job} lost its claim; its result is discarded.`);
  }
}

/** Names a claim: pg-boss's job, and how often it was claimed before. */
export interface ClaimToken {
  bossJobId: string;
  retryCount: number;
}

/** Records which process runs these jobs, inside the transaction that claims them. */
export async function saveClaims(
  tx: Queryable,
  bossJobIds: readonly string[],
  queue: string,
  processId: number,
): Promise<void> {
  if (bossJobIds.length === 0) return;
  await tx.query(
    `INSERT INTO job_claim (boss_job_id, queue, process_id) SELECT id, $2, $3 FROM unnest($1::uuid[]) id
     ON CONFLICT (boss_job_id) DO UPDATE SET process_id = excluded.process_id`,
    [bossJobIds, queue, processId],
  );
}

/** Forgets claims inside the transaction that settles their runs. */
export async function deleteClaims(tx: Queryable, bossJobIds: readonly string[]): Promise<void> {
  await tx.query('DELETE FROM job_claim WHERE boss_job_id = ANY ($1::uuid[])', [bossJobIds]);
}

/** The arguments of pg-boss's calls that end a run, fenced to its claim. */
export function attemptsOf(claims: readonly ClaimToken[]): { id: string; retryCount: number }[] {
  return claims.map(({ bossJobId, retryCount }) => ({ id: bossJobId, retryCount }));
}

/** Checks that a call of pg-boss's changed as many jobs as it named. @throws ClaimLostError */
export async function mustAffect(claims: readonly ClaimToken[], command: Promise<object>): Promise<void> {
  // pg-boss answers how many jobs a command changed; its types leave that out.
  const { affected } = (await command) as { affected?: number };
  if (affected !== claims.length) throw new ClaimLostError(claims[0]?.bossJobId ?? '');
}
