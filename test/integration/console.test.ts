import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Rig, startRig } from '../support/service.ts';

let rig: Rig;

beforeAll(async () => {
  rig = await startRig({ env: { SERVICE_ROLES: 'web' } });
});
afterAll(() => rig.close());

const get = (path: string, init: RequestInit = {}) => fetch(`${rig.service.url}${path}`, init);

describe('/admin', () => {
  it.each(['/admin', '/admin/', '/admin/jobs/9223372036854775807'])(
    'serves the page at %s to everybody, with no data and a strict policy',
    async (path) => {
      const response = await get(path);
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
      const policy = response.headers.get('content-security-policy') ?? '';
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self'");
      expect(policy).not.toContain('unsafe');
      expect(await response.text()).not.toMatch(/<script>|style=|https?:/);
    },
  );

  it.each([
    ['console.js', 'text/javascript; charset=utf-8'],
    ['console.css', 'text/css; charset=utf-8'],
    ['icon.svg', 'image/svg+xml'],
  ])('serves %s, compressed as requested, and only when it has changed', async (name, type) => {
    const plain = await get(`/admin/assets/${name}`, { headers: { 'accept-encoding': 'identity' } });
    expect(plain.headers.get('content-type')).toBe(type);
    expect(plain.headers.get('content-encoding')).toBeNull();
    const text = await plain.text();
    // fetch() unpacks what it knows, so the compressed form is looked at by its length.
    const packed = await get(`/admin/assets/${name}`, { headers: { 'accept-encoding': 'br' } });
    expect(packed.headers.get('content-encoding')).toBe('br');
    expect(packed.headers.get('vary')).toContain('Accept-Encoding');
    expect(await packed.text()).toBe(text);
    expect(Number(packed.headers.get('content-length'))).toBeLessThan(text.length);
    const etag = packed.headers.get('etag') ?? '';
    const known = await get(`/admin/assets/${name}`, { headers: { 'if-none-match': etag } });
    expect([known.status, await known.text()]).toEqual([304, '']);
  });

  it('answers 404 for an unknown asset and 405 for other methods', async () => {
    for (const path of ['/admin/assets/', '/admin/assets/main.tsx']) {
      const response = await get(path);
      expect([path, response.status]).toEqual([path, 404]);
      await response.arrayBuffer();
    }
    const posted = await get('/admin', { method: 'POST' });
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
    await posted.arrayBuffer();
    expect((await get('/admin', { method: 'HEAD' })).status).toBe(200);
  });
});
