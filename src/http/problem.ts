import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import { isUnavailable, isUnstorableText } from '../infra/database-errors.ts';
import type { Logger } from '../infra/logger.ts';
import type { Metrics } from '../infra/metrics.ts';

/** One bad field of a request. */
export interface FieldError {
  /** Where: body, query or path, then the field, e.g. "body.object_id". */
  field: string;
  message: string;
}

/** The catalogue of errors that the service answers with; `type` is `about:blank#<code>`. */
const CATALOGUE = {
  badRequest: [400, 'Bad request'],
  unauthorized: [401, 'Sign-in needed'],
  adminClosed: [401, 'The admin interface is closed'],
  forbidden: [403, 'Not allowed'],
  notFound: [404, 'Not found'],
  methodNotAllowed: [405, 'Method not allowed'],
  conflict: [409, 'Conflict'],
  gone: [410, 'No longer kept'],
  tooLarge: [413, 'Body too large'],
  unsupportedMediaType: [415, 'Unsupported content type'],
  tooManyRequests: [429, 'Too many requests'],
  internal: [500, 'Internal error'],
  badGateway: [502, 'The provider refused'],
  unavailable: [503, 'Temporarily unavailable'],
} as const;
export type ProblemCode = keyof typeof CATALOGUE;

/** An answer that is an error: thrown anywhere, rendered in one place as application/problem+json (RFC 9457). */
export class Problem extends Error {
  override name = 'Problem';
  readonly code: ProblemCode;
  readonly errors: readonly FieldError[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ProblemCode,
    detail: string,
    options: { errors?: readonly FieldError[]; headers?: Record<string, string> } = {},
  ) {
    super(detail);
    this.code = code;
    this.errors = options.errors ?? [];
    this.headers = options.headers ?? {};
  }

  get status(): number {
    return CATALOGUE[this.code][0];
  }

  toJSON() {
    const [status, title] = CATALOGUE[this.code];
    return {
      type: `about:blank#${this.code}`,
      title,
      status,
      detail: this.message,
      ...(this.errors.length > 0 ? { errors: this.errors } : {}),
    };
  }
}

/** How the problems of a request are shown to a person, in HTML; set where a browser may ask. */
export type ProblemPage = (problem: Problem) => string;

/** Shows problems as a page to a client that prefers HTML to JSON, as a browser does. */
export function showProblemsAs(page: ProblemPage): RequestHandler {
  return (request, response, next) => {
    response.vary('Accept');
    if (request.accepts(['application/problem+json', 'application/json', 'text/html']) === 'text/html')
      response.locals.problemPage = page;
    next();
  };
}

export function sendProblem(response: Response, problem: Problem): void {
  const page: ProblemPage | undefined = response.locals.problemPage;
  if (page) {
    response.status(problem.status).set(problem.headers).type('html').send(page(problem));
    return;
  }
  response.status(problem.status).set(problem.headers).type('application/problem+json').send(JSON.stringify(problem));
}

export const refuseUnknownPath: RequestHandler = (request) => {
  throw new Problem('notFound', `There is nothing at ${request.path}.`);
};

/** Answers 405 to a method that none of a path's routes handles. @param allow the methods that exist */
export function refuseOtherMethods(...allow: readonly string[]): RequestHandler {
  return (request) => {
    throw new Problem('methodNotAllowed', `${request.method} is not allowed here.`, {
      headers: { Allow: allow.join(', ') },
    });
  };
}

/** Renders whatever was thrown. Only the unforeseen is an ERROR in the log. */
export function createErrorHandler(deps: { logger: Logger; metrics: Metrics }): ErrorRequestHandler {
  return (error: unknown, request, response, next) => {
    if (response.headersSent) {
      next(error);
      return;
    }
    const problem = toProblem(error);
    if (problem.code === 'internal') {
      deps.metrics.errors.inc({ component: 'http' });
      deps.logger.error('request failed for an unforeseen reason', {
        component: 'http',
        method: request.method,
        path: request.path,
        error,
      });
    } else if (problem.code === 'unavailable' && !(error instanceof Problem)) {
      deps.logger.warn('request failed, database unreachable', {
        component: 'http',
        method: request.method,
        path: request.path,
        error: (error as Error).message,
      });
    }
    sendProblem(response, problem);
  };
}

/** What Express's readers of bodies throw. */
interface HttpError {
  type: string;
  status: number;
  message: string;
  /** Bytes that a body may have. */
  limit: number;
}

/** The answer to whatever was thrown. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const { type, status, message, limit } = error as Partial<HttpError>;
  if (type === 'entity.too.large')
    return new Problem('tooLarge', `The body is larger than ${Number(limit) / 1024} KiB.`);
  if (type === 'encoding.unsupported')
    return new Problem('unsupportedMediaType', 'This content encoding is not supported.');
  if (error instanceof URIError || (status !== undefined && status >= 400 && status < 500)) {
    return new Problem('badRequest', `The request cannot be read: ${message}`);
  }
  if (isUnstorableText(error))
    return new Problem('badRequest', 'The request contains text that cannot be stored: U+0000.');
  if (isUnavailable(error)) {
    return new Problem('unavailable', 'The database cannot be reached; try again shortly.', {
      headers: { 'Retry-After': '5' },
    });
  }
  return new Problem('internal', 'Something went wrong on our side; the log has the details.');
}
