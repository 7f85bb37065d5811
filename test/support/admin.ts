import { z } from 'zod';
import type { Rig } from './service.ts';

/** An answer of the admin interface. */
export interface AdminAnswer<Body> {
  status: number;
  headers: Headers;
  body: Body;
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look at whatever the body has
type AnyBody = any;

/** Calls the admin interface and reads the JSON of the answer. */
export async function ask<Body = AnyBody>(
  rig: Rig,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<AdminAnswer<Body>> {
  const response = await rig.admin(path, {
    method,
    headers,
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: (text === '' ? undefined : JSON.parse(text)) as Body,
  };
}

/** Calls the service with nothing but the given headers: no token. */
export function send(
  rig: Rig,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: string,
): Promise<Response> {
  return fetch(`${rig.service.url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
}

/** What the tests read of a schema. */
export interface JsonSchema {
  type?: string | string[];
  format?: string;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
}

interface Operation {
  summary: string;
  security?: object[];
  requestBody?: { content: Record<string, { schema: JsonSchema }> };
  parameters: { name: string; in: string; schema: JsonSchema }[];
  responses: Record<string, { content?: Record<string, { schema: object }> }>;
}

/** The service's OpenAPI document, and a check of answers against it. */
export interface Description {
  operations: { method: string; path: string; operation: Operation }[];
  /** @returns what does not match the schema of the answer; nothing when all does */
  misfits(method: string, path: string, answer: AdminAnswer<unknown>): string[];
}

export async function readDescription(rig: Rig): Promise<Description> {
  const document = (await (await fetch(`${rig.service.url}/api/openapi.json`)).json()) as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, object> };
  };
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  return {
    operations,
    misfits: (method, path, answer) => {
      const [pathname = ''] = path.split('?');
      const fitting = operations.filter((one) => one.method === method && fits(one.path, pathname));
      const found = fitting.find(({ path: template }) => !template.includes('{')) ?? fitting[0];
      if (!found) return [`${method} ${pathname} is not described`];
      const described = found.operation.responses[String(answer.status)];
      if (!described) return [`${method} ${pathname}: status ${answer.status} is not described`];
      const type = answer.headers.get('content-type')?.split(';')[0];
      if (type === undefined || type === null) return [];
      const schema = described.content?.[type]?.schema;
      if (!schema) return [`${method} ${pathname}: ${answer.status} as ${type} is not described`];
      const resolved = '$ref' in schema ? document.components.schemas.Problem : schema;
      const result = z.fromJSONSchema(resolved as Parameters<typeof z.fromJSONSchema>[0]).safeParse(answer.body);
      return result.success
        ? []
        : result.error.issues.map(
            (issue) => `${method} ${pathname} ${answer.status}: ${issue.path.join('.')} ${issue.message}`,
          );
    },
  };
}

function fits(template: string, pathname: string): boolean {
  return new RegExp(`^${template.replace(/[.]/g, '\\.').replace(/\{[a-zA-Z]+\}/g, '[^/]+')}$`).test(pathname);
}
