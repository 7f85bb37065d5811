import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { PgBoss } from 'pg-boss';

const QUEUE = 'no-op';

/** pg-boss as it comes, in a process of its own: loops over fetch and complete, with nothing between. */
export interface NoopDrain {
  /** Inserts jobs and drains them. @returns how long the drain took, in milliseconds */
  run(jobs: number): Promise<number>;
  stop(): Promise<void>;
}

export async function startNoopDrain(connectionString: string, loops: number): Promise<NoopDrain> {
  const child = fork(fileURLToPath(import.meta.url), [connectionString, String(loops)], { execArgv: [] });
  const ended = once(child, 'exit');
  await once(child, 'message');
  return {
    run: async (jobs) => {
      const answer = once(child, 'message');
      child.send(jobs);
      return (await answer)[0] as number;
    },
    stop: async () => {
      child.disconnect();
      await ended;
    },
  };
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url)) {
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
  process.on('disconnect', () => process.exit(0));
  process.send('ready');
}

async function drain(boss: PgBoss): Promise<void> {
  for (;;) {
    const [job] = await boss.fetch(QUEUE);
    if (!job) return;
    await boss.complete(QUEUE, job.id);
  }
}
