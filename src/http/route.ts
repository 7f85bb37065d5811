import express, { type Request, type RequestHandler, type Response, type Router } from 'express';
import { z } from 'zod';
import { parseJsonKeepingInt64, toInt64 } from '../domain/int64.ts';
import type { Audit, AuditNote } from './audit.ts';
import { toFieldErrors } from './field-errors.ts';
import { type FieldError, Problem, refuseOtherMethods } from './problem.ts';

type Method = 'get' | 'post' | 'patch' | 'delete';
type Shape = z.ZodType;

/** What a handler gets: the checked parts of the request. */
export interface Input<P extends Shape, Q extends Shape, B extends Shape> {
  params: z.output<P>;
  query: z.output<Q>;
  body: z.output<B>;
  request: Request;
  response: Response;
}

/** What a handler returns; undefined when it has already answered (a picture, a stream, a redirect). */
export interface Answer {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
  /** What the audit should say of the change, beyond its path and query. */
  audit?: AuditNote;
}

/**
 * One endpoint. The schemas are the one source of validation, types and the OpenAPI document.
 */
export interface Route<P extends Shape = Shape, Q extends Shape = Shape, B extends Shape = Shape> {
  method: Method;
  /** As Express takes it: /api/admin/athletes/:id */
  path: string;
  summary: string;
  /** 'write' is for the application's interface: its token with that scope, or the admin's. */
  access: 'public' | 'read' | 'write' | 'admin';
  params?: P;
  query?: Q;
  body?: B;
  /** True when a request without a body is fine. */
  bodyOptional?: boolean;
  /** Answers by status: a schema for JSON, or a content type for anything else. */
  responses: Record<number, { description: string; schema?: z.ZodType; contentType?: string }>;
  handle: (input: Input<P, Q, B>) => Promise<Answer | undefined> | Answer | undefined;
}

/** Gives an endpoint its types. */
export function defineRoute<P extends Shape, Q extends Shape, B extends Shape>(route: Route<P, Q, B>): Route {
  return route as unknown as Route;
}

export const BODY_LIMIT_BYTES = 64 * 1024;

const NO_ID = 'must be a whole number from 1 to 9223372036854775807';

/** A 64-bit id: a number or a numeric string on the way in, a decimal string inside. */
export const int64 = z
  .union([z.string(), z.number()], { error: NO_ID })
  .transform((value, context) => {
    const id = toInt64(value);
    if (id === undefined) {
      context.issues.push({
        code: 'custom',
        input: value,
        message: NO_ID,
      });
      return z.NEVER;
    }
    return id;
  })
  .meta({
    type: ['string', 'integer'],
    pattern: '^[0-9]{1,19}$',
    minimum: 1,
    description: '64-bit id; numbers and numeric strings are accepted',
  });

/** An id in an answer. */
export const int64Out = z
  .string()
  .regex(/^[0-9]+$/)
  .meta({ description: '64-bit id as a decimal string' });

/**
 * Registers routes on a router, a 405 with Allow for the other methods of each path included.
 * @param audit receives every change that an operator or an application makes
 */
export function mountRoutes(
  router: Router,
  routes: readonly Route[],
  guard: (access: Route['access']) => RequestHandler,
  audit: Audit,
): void {
  // Fixed paths before placeholders: /jobs/retry is not a job's id.
  const paths = [...new Set(routes.map((route) => route.path))].sort(
    (a, b) => Number(a.includes(':')) - Number(b.includes(':')),
  );
  for (const path of paths) {
    const here = routes.filter((route) => route.path === path);
    for (const route of here) {
      router[route.method](path, guard(route.access), ...bodyReader(route), handlerOf(route, audit));
    }
    const allow = here.flatMap(({ method }) => (method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]));
    router.all(path, refuseOtherMethods(...new Set(allow)));
  }
}

function bodyReader(route: Route): RequestHandler[] {
  return route.body ? [express.raw({ type: () => true, limit: BODY_LIMIT_BYTES })] : [];
}

function handlerOf(route: Route, audit: Audit): RequestHandler {
  return async (request, response) => {
    const errors: FieldError[] = [];
    const params = check(route.params, request.params, 'path', errors);
    const query = check(route.query ?? z.strictObject({}), request.query, 'query', errors);
    const body = route.body
      ? check(route.body, readJson(request, route.bodyOptional ?? false), 'body', errors)
      : undefined;
    if (errors.length > 0) {
      throw new Problem(
        'badRequest',
        `The request has ${errors.length === 1 ? 'a bad field' : `${errors.length} bad fields`}: ${errors.map(({ field }) => field).join(', ')}.`,
        { errors },
      );
    }
    response.locals.routePath = route.path;
    const handle = async () => route.handle({ params, query, body, request, response });
    const answer = changesSomething(route)
      ? await audit.accompany(
          { who: response.locals.who, tokenName: response.locals.tokenName },
          request,
          route.path,
          handle,
        )
      : await handle();
    if (answer)
      response
        .status(answer.status)
        .set(answer.headers ?? {})
        .json(answer.body);
  };
}

function changesSomething(route: Route): boolean {
  return route.method !== 'get' && (route.access === 'admin' || route.access === 'write');
}

/** The JSON of a body. @throws Problem 415 for another content type, 400 for unreadable JSON and for no body */
export function readJson(request: Request, optional: boolean): unknown {
  const bytes = rawBody(request);
  if (bytes.length === 0 && optional) return {};
  // Express reports no type for a request without a body.
  if (bytes.length > 0 && !request.is('application/json') && !request.is('+json')) {
    throw new Problem('unsupportedMediaType', 'The body must be sent as Content-Type: application/json.');
  }
  return parseBody(bytes);
}

/** What express.raw has read; empty when there was no body. */
export function rawBody(request: Request): Buffer {
  const raw: unknown = request.body;
  return Buffer.isBuffer(raw) ? raw : Buffer.alloc(0);
}

/** @throws Problem 400 for unreadable JSON and for no body */
export function parseBody(bytes: Buffer): unknown {
  if (bytes.length === 0)
    throw new Problem('badRequest', 'The body is missing. Send it as Content-Type: application/json.', {
      errors: [{ field: 'body', message: 'is missing' }],
    });
  try {
    return parseJsonKeepingInt64(bytes.toString('utf8'));
  } catch (error) {
    // A RangeError says that it is nested too deeply to be walked.
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
    throw new Problem('badRequest', 'The body is not JSON.', { errors: [{ field: 'body', message: 'is not JSON' }] });
  }
}

function check(schema: z.ZodType | undefined, value: unknown, part: string, errors: FieldError[]): unknown {
  if (!schema) return undefined;
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  errors.push(...toFieldErrors(part, result.error.issues));
  return undefined;
}
