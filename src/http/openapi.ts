import { z } from 'zod';
import { SESSION_COOKIE } from './admin-auth.ts';
import { defineRoute, type Route } from './route.ts';

/** What the document needs of an endpoint. */
export type DescribedRoute = Omit<Route, 'handle'>;

type Json = Record<string, unknown>;

const PROBLEM: Json = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: { type: 'string', examples: ['about:blank#badRequest'] },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string', description: 'What happened, and what to do' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: {
          field: { type: 'string', examples: ['query.limit'] },
          message: { type: 'string' },
        },
        additionalProperties: false,
      },
    },
  },
  additionalProperties: false,
};

/** The OpenAPI 3.1 document of these endpoints, made from the schemas that they are checked by. */
export function buildOpenApi(routes: readonly DescribedRoute[], about: { version: string; url: string }): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replace(/:([A-Za-z]+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method]: describeOperation(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Activity Sync',
      version: about.version,
      description:
        'Keeps an application’s copy of its athletes’ activities in sync. Ids are 64-bit and written as decimal strings; errors are application/problem+json.',
    },
    servers: [{ url: about.url }],
    paths,
    components: {
      schemas: { Problem: PROBLEM },
      responses: {
        Problem: {
          description: 'An error',
          content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
        },
      },
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'ADMIN_TOKEN, or ADMIN_READ_TOKEN for read-only access' },
        apiToken: { type: 'http', scheme: 'bearer', description: 'A token from POST /api/admin/api-tokens' },
        session: { type: 'apiKey', in: 'cookie', name: SESSION_COOKIE },
      },
    },
  };
}

/** The route that serves the document. @param routes all endpoints but this one */
export function openApiRoute(routes: readonly DescribedRoute[], about: { version: string; url: string }): Route {
  let document: string | undefined;
  const route = defineRoute({
    method: 'get',
    path: '/api/openapi.json',
    summary: 'This document',
    access: 'public',
    responses: { 200: { description: 'OpenAPI 3.1', schema: z.looseObject({ openapi: z.string() }) } },
    handle: ({ response }) => {
      document ??= JSON.stringify(buildOpenApi([...routes, route], about));
      response.type('json').send(document);
      return undefined;
    },
  });
  return route;
}

function describeOperation(route: DescribedRoute): Json {
  return {
    operationId: operationId(route),
    summary: route.summary,
    ...(route.access === 'public'
      ? {}
      : { security: [...(isForApplications(route) ? [{ apiToken: [] }] : []), { token: [] }, { session: [] }] }),
    parameters: [...parametersOf(route.params, 'path'), ...parametersOf(route.query, 'query')],
    ...(route.body
      ? {
          requestBody: {
            required: route.bodyOptional !== true,
            content: { 'application/json': { schema: toSchema(route.body, 'input') } },
          },
        }
      : {}),
    responses: responsesOf(route),
  };
}

function responsesOf(route: DescribedRoute): Json {
  const responses: Json = {};
  for (const [status, { description, schema, contentType }] of Object.entries(route.responses)) {
    if (Number(status) >= 400 && schema === undefined) responses[status] = problem(description);
    else if (schema) {
      responses[status] = {
        description,
        content: { [contentType ?? 'application/json']: { schema: toSchema(schema, 'output') } },
      };
    } else {
      const content = contentType ? { content: { [contentType]: { schema: { type: 'string' } } } } : {};
      responses[status] = { description, ...content };
    }
  }
  const add = (status: number, description: string) => {
    responses[status] ??= problem(description);
  };
  add(400, 'A bad or unknown field');
  if (route.access !== 'public') add(401, 'No token, a wrong one, or the admin interface is closed');
  if (route.access === 'admin' || route.access === 'write') add(403, 'This token is read-only');
  if (route.access !== 'public')
    add(
      429,
      isForApplications(route)
        ? 'This token sent too many requests within a minute, or this address too many wrong tokens'
        : 'This address sent too many wrong tokens within a minute',
    );
  if (route.body) {
    add(413, 'The body is larger than 64 KiB');
    add(415, 'The body is not application/json');
  }
  add(503, 'The database is unreachable; try again shortly');
  return responses;
}

function isForApplications(route: DescribedRoute): boolean {
  return route.path.startsWith('/api/v1/');
}

function problem(description: string): Json {
  return { description, content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } } };
}

function parametersOf(schema: z.ZodType | undefined, where: 'path' | 'query'): Json[] {
  if (!schema) return [];
  const { properties = {}, required = [] } = toSchema(schema, 'input') as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }));
}

function toSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      // A manually described field (an id, a number in a query) is used as described.
      if (jsonSchema.type !== undefined) delete jsonSchema.anyOf;
      if (jsonSchema.type === 'integer' || jsonSchema.format === 'date-time') delete jsonSchema.pattern;
    },
  }) as Json;
  return rest;
}

function operationId({ method, path }: DescribedRoute): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '' && word !== 'api');
  return [method, ...words.map((word) => word[0]?.toUpperCase() + word.slice(1))].join('');
}
