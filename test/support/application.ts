import { ask } from './admin.ts';
import type { Rig } from './service.ts';

// biome-ignore lint/suspicious/noExplicitAny: the tests look at whatever the body has
type AnyBody = any;

/** An application with a token of its own, as the service sees it. */
export interface Application {
  token: string;
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<{ status: number; headers: Headers; body: AnyBody }>;
}

/** Creates a token, and calls /api/v1 with it. */
export async function startApplication(rig: Rig, scope: 'read' | 'write' = 'write'): Promise<Application> {
  const { status, body } = await ask(rig, 'POST', '/api/admin/api-tokens', { name: 'test application', scope });
  if (status !== 201) throw new Error(`No token was created: ${status}`);
  return applicationWith(rig, body.token);
}

export function applicationWith(rig: Rig, token: string): Application {
  return {
    token,
    call: async (method, path, body, headers = {}) => {
      const response = await fetch(`${rig.service.url}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      const isJson = /json/.test(response.headers.get('content-type') ?? '');
      return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    },
  };
}
