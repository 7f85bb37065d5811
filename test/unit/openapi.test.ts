import { describe, expect, it } from '@jest/globals';
import { z } from 'zod';
import { describedRoutes } from '../../src/http/described-routes.ts';
import { buildOpenApi } from '../../src/http/openapi.ts';

const document = buildOpenApi(describedRoutes, { version: '1', url: 'https://sync.example.com' }) as {
  paths: Record<string, Record<string, { requestBody: { content: Record<string, { schema: object }> } }>>;
};

describe('a delivery in the OpenAPI document', () => {
  const schema = document.paths['/api/provider/webhook']?.post?.requestBody.content['application/json']?.schema;
  const fits = (ids: object) =>
    z
      .fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0])
      .safeParse({ object_type: 'activity', aspect_type: 'create', event_time: 1_795_000_000, updates: {}, ...ids })
      .success;

  it('may have its ids as numbers, as the provider sends them, and as text', () => {
    expect(fits({ object_id: 1360128428, owner_id: 134815, subscription_id: 120475 })).toBe(true);
    expect(fits({ object_id: '9223372036854775807', owner_id: '134815', subscription_id: '120475' })).toBe(true);
  });

  it('has none that is no id', () => {
    for (const wrong of [0, -1, 1.5, '-1', 'abc', null])
      expect(fits({ object_id: wrong, owner_id: 134815, subscription_id: 120475 })).toBe(false);
  });
});
