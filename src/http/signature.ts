import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Problem } from './problem.ts';

const TOLERANCE_S = 300;

/**
 * Checks `X-Strava-Signature: t=<unix seconds>,v1=<hex>`, an HMAC-SHA256 over `<t>.<raw body>`; several v1
 * are allowed. Without a secret nothing is checked.
 * @throws Problem 403
 */
export function checkSignature(
  delivery: { headers: IncomingHttpHeaders; body: Buffer },
  secret: string | undefined,
  now: number,
): void {
  if (secret === undefined) return;
  const parts = String(delivery.headers['x-strava-signature'] ?? '')
    .split(',')
    .map((part) => part.trim().split('=', 2));
  const time = parts.find(([name]) => name === 't')?.[1];
  const signatures = parts.filter(([name]) => name === 'v1').map(([, value]) => value ?? '');
  if (time === undefined || !/^\d{1,12}$/.test(time) || signatures.length === 0) {
    throw new Problem(
      'forbidden',
      'X-Strava-Signature is missing or unreadable; it must be t=<unix seconds>,v1=<hex>.',
    );
  }
  if (Math.abs(now / 1000 - Number(time)) > TOLERANCE_S) {
    throw new Problem('forbidden', `X-Strava-Signature is more than ${TOLERANCE_S} seconds old, or in the future.`);
  }
  const expected = createHmac('sha256', secret).update(`${time}.`).update(delivery.body).digest();
  const valid = signatures.some((signature) => {
    const given = Buffer.from(signature, 'hex');
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!valid) throw new Problem('forbidden', 'X-Strava-Signature does not match the body.');
}
