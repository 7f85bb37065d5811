import express, { type Express, type RequestHandler, type Router } from 'express';
import helmet from 'helmet';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';
import { renderProblemPage } from './pages/problem-page.ts';
import { createErrorHandler, refuseUnknownPath, showProblemsAs } from './problem.ts';

/**
 * Puts routers behind the security headers, and errors into one form.
 * @param deps.first routers that count their requests themselves: the provider's deliveries
 * @param deps.trustedProxies how many proxies are believed about the client's address
 */
export function createApp(deps: {
  first: Router[];
  routers: Router[];
  trustedProxies: number;
  logger: Logger;
  metrics: Metrics;
}): Express {
  const app = express();
  app.disable('x-powered-by');
  app.set('trust proxy', deps.trustedProxies);
  app.set('etag', false);
  app.set('query parser', 'simple');
  app.use(
    helmet({
      contentSecurityPolicy: {
        useDefaults: false,
        directives: {
          defaultSrc: ["'none'"],
          scriptSrc: ["'self'"],
          styleSrc: ["'self'"],
          imgSrc: ["'self'", 'data:'],
          connectSrc: ["'self'"],
          fontSrc: ["'self'"],
          formAction: ["'self'"],
          baseUri: ["'none'"],
          frameAncestors: ["'none'"],
        },
      },
      crossOriginEmbedderPolicy: false,
      // Under 'no-referrer' a browser sends `Origin: null` with a form, and could not be distinguished from another site.
      referrerPolicy: { policy: 'same-origin' },
    }),
  );
  for (const router of deps.first) app.use(router);
  app.use(countRequests(deps.metrics));
  app.use(showPages);
  for (const router of deps.routers) app.use(router);
  app.use(refuseUnknownPath);
  app.use(createErrorHandler(deps));
  return app;
}

const showProblems = showProblemsAs(renderProblemPage);

// Below /api and for probes a browser gets what every client gets.
const showPages: RequestHandler = (request, response, next) => {
  if (/^\/(api\/|admin\/assets\/|healthz|readyz|metrics)/.test(request.path)) next();
  else showProblems(request, response, next);
};

// Otherwise any client could create a series for each of the 34 methods that Node accepts, on every route.
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE']);

function countRequests(metrics: Metrics): RequestHandler {
  return (request, response, next) => {
    const startedAt = performance.now();
    response.once('close', () => {
      const route = String(response.locals.routePath ?? request.route?.path ?? 'other');
      const method = METHODS.has(request.method) ? request.method : 'other';
      metrics.httpRequests.inc({ route, method, code: String(response.statusCode) });
      // A stream lasts as long as its viewer stays.
      if (response.locals.isStream === true) return;
      metrics.httpDuration.observe({ route, method }, (performance.now() - startedAt) / 1000);
    });
    next();
  };
}
