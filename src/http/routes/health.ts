import { Router } from 'express';
import type { Metrics } from '../../infra/metrics.ts';
import { refuseOtherMethods } from '../problem.ts';

/** The readiness checks; each answers true, or why not. */
export interface Readiness {
  [part: string]: () => Promise<true | string>;
}

const CHECK_MS = 2000;

/**
 * Live, ready, metrics: every process serves these. Being throttled by the provider is healthy.
 */
export function createHealthRouter(deps: { readiness: Readiness; metrics: Metrics }): Router {
  const router = Router();
  router.get('/healthz', (_request, response) => {
    response.json({ status: 'ok' });
  });
  router.get('/readyz', async (_request, response) => {
    const parts = Object.entries(deps.readiness);
    const answers = await Promise.all(parts.map(async ([name, look]) => [name, await within(look)] as const));
    const ready = answers.every(([, answer]) => answer === true);
    response
      .status(ready ? 200 : 503)
      .set('Cache-Control', 'no-store')
      .json({
        status: ready ? 'ready' : 'not ready',
        ...Object.fromEntries(answers.map(([name, answer]) => [name, answer === true ? 'ok' : answer])),
      });
  });
  router.get('/metrics', async (_request, response) => {
    response.type(deps.metrics.registry.contentType).send(await deps.metrics.registry.metrics());
  });
  for (const path of ['/healthz', '/readyz', '/metrics']) router.all(path, refuseOtherMethods('GET', 'HEAD'));
  return router;
}

// A part that does not answer is not ready: the probe must not hang with it.
async function within(look: () => Promise<true | string>): Promise<true | string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`no answer within ${CHECK_MS} ms`), CHECK_MS);
  });
  try {
    return await Promise.race([look().catch((error: Error) => error.message || 'failed'), late]);
  } finally {
    clearTimeout(timer);
  }
}
