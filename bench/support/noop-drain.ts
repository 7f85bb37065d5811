import { PgBoss } from 'pg-boss';
import { runsAsOtherSelf, startOtherSelf } from './child-process.ts';

const QUEUE = 'no-op';

/** Plain pg-boss, in a process of its own: loops over fetch and complete, with nothing in between. */
export interface NoopDrain {
  /** Inserts jobs and drains them. @returns how long the drain took, in milliseconds */
  run(jobs: number): Promise<number>;
  stop(): Promise<void>;
}

export async function startNoopDrain(connectionString: string, loops: number): Promise<NoopDrain> {
  const other = startOtherSelf(import.meta.url, [connectionString, String(loops)]);
  await other.nextMessage();
  return { run: (jobs) => other.ask<number>(jobs), stop: () => other.stop() };
}

if (runsAsOtherSelf(import.meta.url)) {
  const [connectionString = '', loops = '3'] = process.argv.slice(2);
  const boss = new PgBoss({ connectionString, supervise: false, schedule: false });
  await boss.start();
  await boss.createQueue(QUEUE, { partition: true });
  process.on('message', async (jobs: number) => {
    await boss.insert(
      QUEUE,
      Array.from({ length: jobs }, (_, n) => ({ data: { n } })),
    );
    await boss.getDb().executeSql('ANALYZE');
    const startedAt = performance.now();
    await Promise.all(Array.from({ length: Number(loops) }, () => drain(boss)));
    process.send?.(performance.now() - startedAt);
  });
  process.send?.('ready');
}

async function drain(boss: PgBoss): Promise<void> {
  for (;;) {
    const [job] = await boss.fetch(QUEUE);
    if (!job) return;
    await boss.complete(QUEUE, job.id);
  }
}
