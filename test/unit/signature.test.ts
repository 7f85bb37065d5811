import { createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { checkSignature } from '../../src/http/signature.ts';

const SECRET = 'webhook-secret';
const NOW = 1_700_000_000_000;
const T = NOW / 1000;
const BODY = Buffer.from('{"object_id":1,"name":"ü"}');
const sign = (time: number | string, body: Buffer = BODY, secret = SECRET) =>
  createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex');
const check =
  (header: string | undefined, secret: string | undefined = SECRET, body = BODY) =>
  () =>
    checkSignature({ headers: header === undefined ? {} : { 'x-strava-signature': header }, body }, secret, NOW);

describe('the signature of a delivery', () => {
  it('is ignored without a secret', () => {
    expect(() => checkSignature({ headers: {}, body: BODY }, undefined, NOW)).not.toThrow();
  });

  it.each([
    ['right', `t=${T},v1=${sign(T)}`],
    ['right, with blanks', ` t=${T} , v1=${sign(T)} `],
    ['one of several', `t=${T},v1=${'00'.repeat(32)},v1=${sign(T)}`],
    ['beside other schemes', `t=${T},v0=x,v1=${sign(T)},v2=y`],
    ['exactly 300 s old', `t=${T - 300},v1=${sign(T - 300)}`],
    ['exactly 300 s ahead', `t=${T + 300},v1=${sign(T + 300)}`],
    ['in capitals', `t=${T},v1=${sign(T).toUpperCase()}`],
  ])('is accepted when it is %s', (_case, header) => {
    expect(check(header)).not.toThrow();
  });

  it.each([
    ['missing', undefined],
    ['empty', ''],
    ['without a time', `v1=${sign(T)}`],
    ['without v1', `t=${T}`],
    ['of an unreadable time', `t=now,v1=${sign('now')}`],
    ['301 s old', `t=${T - 301},v1=${sign(T - 301)}`],
    ['301 s ahead', `t=${T + 301},v1=${sign(T + 301)}`],
    ['of another time', `t=${T},v1=${sign(T - 1)}`],
    ['of another body', `t=${T},v1=${sign(T, Buffer.from('{}'))}`],
    ['of another secret', `t=${T},v1=${sign(T, BODY, 'other')}`],
    ['cut short', `t=${T},v1=${sign(T).slice(0, -2)}`],
    ['followed by more', `t=${T},v1=${sign(T)}00`],
    ['empty in v1', `t=${T},v1=`],
  ])('is refused with 403 when it is %s', (_case, header) => {
    expect(check(header)).toThrow(expect.objectContaining({ code: 'forbidden' }));
  });

  it('is refused without a body', () => {
    expect(check(`t=${T},v1=${sign(T)}`, SECRET, Buffer.alloc(0))).toThrow(
      expect.objectContaining({ code: 'forbidden' }),
    );
  });

  it('names no signature and no secret when it is refused', () => {
    expect(check(`t=${T},v1=${sign(T, BODY, 'other')}`)).not.toThrow(new RegExp(`${SECRET}|${sign(T)}`));
  });
});
