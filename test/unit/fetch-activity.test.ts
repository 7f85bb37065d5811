import { describe, expect, it } from '@jest/globals';
import { ReconnectError } from '../../src/flows/access-token.ts';
import { type FetchDependencies, fetchActivity } from '../../src/flows/fetch-activity.ts';
import { ProviderError, type ProviderErrorCode } from '../../src/provider/errors.ts';
import type { ActivityDetail } from '../../src/provider/schemas.ts';
import type { Run } from '../../src/queue/claim.ts';

const run: Run = {
  bossJobId: 'b',
  retryCount: 0,
  attempts: 0,
  jobId: '1',
  activityId: '11',
  athleteId: '7',
  reason: 'webhook',
  force: false,
  aspect: 'create',
  signed: false,
  version: 1,
  needsCall: true,
  knownAthlete: true,
  knownActivity: false,
  accessToken: 'sealed',
  tokenExpiresAt: new Date(),
  scope: 'read',
  athleteState: 'healthy',
  startedAt: '2026-09-21 14:00:00+00',
  requestedAt: new Date(),
  claimedAt: 0,
  waitedMs: 0,
};
const detail = { id: '11', athlete: { id: '7' }, name: 'Run', moving_time: 1, elapsed_time: 1 } as ActivityDetail;
const deletion = { aspect: 'delete', knownActivity: true } as const;

type Answer = ProviderErrorCode | Partial<ActivityDetail>;

/** Runs a job against a provider that gives these answers in turn, with a budget and tokens that are always there. */
async function decide(
  more: Partial<Run>,
  answers: Answer[],
  deps: Partial<FetchDependencies> = {},
  signal = new AbortController().signal,
) {
  const calls = [...answers];
  return fetchActivity(
    {
      provider: {
        getActivity: async () => {
          const answer = calls.shift() ?? 'NETWORK';
          if (typeof answer === 'string')
            throw new ProviderError(answer, `answer ${answer}`, { status: 429, retryAfterMs: 60_000 });
          return { detail: { ...detail, ...answer }, body: '{}' };
        },
      },
      accessTokens: { get: async () => 'token' },
      budget: { take: async () => undefined, renew: async () => undefined },
      grantValidMs: Number.POSITIVE_INFINITY,
      callWithinMs: Number.POSITIVE_INFINITY,
      persist: (work) => work(),
      ...deps,
    },
    { ...run, ...more },
    signal,
  );
}

describe('the provider’s answer decides how a run ends', () => {
  it.each<[string, Partial<Run>, Answer[], object]>([
    [
      'an activity is stored',
      {},
      [{}],
      { kind: 'stored', outcome: 'stored', activity: { activityId: '11', athleteId: '7' } },
    ],
    [
      '404 ends the job and removes what is stored',
      {},
      ['NOT_FOUND'],
      { kind: 'ended', outcome: 'notFound', effect: { kind: 'remove' } },
    ],
    ['401 is repeated once with a fresh token', {}, ['UNAUTHORIZED', {}], { kind: 'stored', outcome: 'stored' }],
    [
      '401 twice ends the job, and the athlete must reconnect',
      {},
      ['UNAUTHORIZED', 'UNAUTHORIZED'],
      { kind: 'ended', outcome: 'unauthorized', effect: { kind: 'reconnect' } },
    ],
    ['403 ends that job alone', {}, ['FORBIDDEN'], { kind: 'ended', outcome: 'forbidden' }],
    [
      '429 releases the job and stops every replica',
      {},
      ['THROTTLED'],
      { kind: 'release', throttle: { waitMs: 60_000 } },
    ],
    ['5xx is retried', {}, ['SERVER'], { kind: 'retry' }],
    ['a network error is retried', {}, ['NETWORK'], { kind: 'retry' }],
    ['a timeout is retried', {}, ['TIMEOUT'], { kind: 'retry' }],
    ['an unreadable answer is retried', {}, ['UNREADABLE'], { kind: 'retry' }],
    ['any other 4xx is retried', {}, ['REFUSED'], { kind: 'retry' }],
    ['an answer that would be as wrong again ends the job', {}, ['UNUSABLE'], { kind: 'ended', outcome: 'unusable' }],
    ['another activity ends the job', {}, [{ id: '12' }], { kind: 'ended', outcome: 'unusable' }],
    ['another athlete’s activity ends the job', {}, [{ athlete: { id: '8' } }], { kind: 'ended', outcome: 'unusable' }],
    [
      '404 confirms a deletion',
      deletion,
      ['NOT_FOUND'],
      { kind: 'ended', outcome: 'deleted', effect: { kind: 'delete' } },
    ],
    [
      'another athlete’s activity confirms a deletion',
      deletion,
      [{ athlete: { id: '8' } }],
      { kind: 'ended', outcome: 'deleted', effect: { kind: 'delete' } },
    ],
    [
      'an activity that is still there refutes a deletion, and is stored',
      deletion,
      [{}],
      { kind: 'stored', outcome: 'refuted' },
    ],
    ['5xx leaves a deletion to be confirmed later', deletion, ['SERVER'], { kind: 'retry' }],
  ])('%s', async (_title, more, answers, settlement) => {
    expect(await decide(more, answers)).toMatchObject({ lastCall: { at: expect.any(Number) }, ...settlement });
  });
});

describe('a run that needs no call', () => {
  it.each<[string, Partial<Run>, object]>([
    ['skips an activity that is stored', {}, { outcome: 'skipped' }],
    [
      'deletes what a signed event says',
      { ...deletion, signed: true },
      { outcome: 'deleted', effect: { kind: 'delete' } },
    ],
    ['has nothing to delete where nothing is stored', { aspect: 'delete' }, { outcome: 'deleted' }],
    ['fails for an unknown athlete', { knownAthlete: false }, { outcome: 'unknownAthlete', wantsAccess: true }],
    [
      'fails for an athlete who must reconnect',
      { athleteState: 'reconnect' },
      { outcome: 'unauthorized', wantsAccess: true },
    ],
    ['fails for an insufficient scope', { athleteState: 'scope' }, { outcome: 'forbidden', wantsAccess: true }],
  ])('%s', async (_title, more, settlement) => {
    const settled = await decide({ needsCall: false, ...more }, []);
    expect(settled).toMatchObject({ kind: 'ended', ...settlement });
    expect(settled.lastCall).toBeUndefined();
  });
});

describe('a call that is not made', () => {
  it('ends the job as unauthorized when the token cannot be refreshed', async () => {
    const get = () => Promise.reject(new ReconnectError('refused'));
    expect(await decide({}, [], { accessTokens: { get } })).toMatchObject({
      kind: 'ended',
      outcome: 'unauthorized',
      wantsAccess: true,
    });
  });

  it('releases the job at once when the budget has closed before the call left', async () => {
    const budget = { take: async () => undefined, renew: async () => new Date() };
    expect(await decide({}, [], { budget, grantValidMs: -1 })).toMatchObject({ kind: 'release', lastCall: 'none' });
  });

  it('releases the job when the call could not leave in time', async () => {
    expect(await decide({}, [], { grantValidMs: -1, callWithinMs: -1 })).toMatchObject({
      kind: 'release',
      lastCall: 'none',
    });
  });

  it('releases the job when the process stops during the call', async () => {
    expect(await decide({}, ['NETWORK'], {}, AbortSignal.abort())).toMatchObject({ kind: 'release' });
  });

  it('leaves an internal error to the worker', async () => {
    const get = () => Promise.reject(new Error('bug'));
    await expect(decide({}, [], { accessTokens: { get } })).rejects.toThrow('bug');
  });
});
