import { describe, expect, it } from '@jest/globals';
import { coalesce, type KnownRequest } from '../../src/domain/coalesce.ts';
import type { FetchRequest } from '../../src/domain/job.ts';

const at = (minute: number) => new Date(Date.UTC(2026, 8, 21, 14, minute));
const known: KnownRequest = {
  athleteId: '7',
  reason: 'polling',
  force: false,
  aspect: 'create',
  signed: false,
  eventTime: at(10),
  state: 'waiting',
  stored: false,
};
const request: FetchRequest = { activityId: '1', athleteId: '7', reason: 'polling', force: false };
const event = (aspect: 'create' | 'update' | 'delete', minute: number): Partial<FetchRequest> => ({
  reason: 'webhook',
  aspect,
  force: aspect === 'update',
  eventTime: at(minute),
});

describe('a request for an activity that was requested before', () => {
  it.each<
    [string, Partial<KnownRequest>, Partial<FetchRequest>, ReturnType<typeof coalesce>['result'], object | undefined]
  >([
    ['joins a waiting job', {}, {}, 'joined', { reason: 'polling', newJob: false, reopened: false }],
    ['makes a waiting job stronger', {}, { reason: 'manual' }, 'joined', { reason: 'manual' }],
    ['never makes a waiting job weaker', { reason: 'webhook' }, { reason: 'manual' }, 'joined', { reason: 'webhook' }],
    ['makes a waiting job a forced one', {}, { force: true }, 'joined', { force: true }],
    ['leaves a forced job forced', { force: true }, {}, 'joined', { force: true }],
    ['leaves a running job alone when it is no event and not forced', { state: 'running' }, {}, 'joined', undefined],
    [
      'has a running job followed by one more when forced',
      { state: 'running' },
      { force: true },
      'accepted',
      { force: true, newJob: false },
    ],
    [
      're-opens a finished job as it is requested now',
      { state: 'finished', reason: 'webhook', force: true },
      {},
      'accepted',
      { reason: 'polling', force: false, aspect: 'create', reopened: true, newJob: true },
    ],
    ['moves a job to the athlete named now', {}, { athleteId: '8' }, 'accepted', { athleteId: '8', newJob: true }],
    [
      'leaves a stored activity with its athlete',
      { stored: true },
      { athleteId: '8' },
      'joined',
      { athleteId: '7', newJob: false },
    ],
    ['is out of date when its event is older than the newest one', {}, event('update', 9), 'stale', undefined],
    [
      'is accepted when its event is as old as the newest one',
      {},
      event('update', 10),
      'accepted',
      { aspect: 'update', force: true },
    ],
    [
      'is out of date when its event is as old as a deletion',
      { aspect: 'delete', signed: true },
      event('update', 10),
      'stale',
      undefined,
    ],
    [
      'has a running job followed by one more run for an event',
      { state: 'running' },
      event('create', 11),
      'accepted',
      { force: true, eventTime: at(11) },
    ],
    [
      'becomes a deletion',
      {},
      { ...event('delete', 11), signed: true },
      'accepted',
      { aspect: 'delete', signed: true, eventTime: at(11) },
    ],
    [
      'makes no other event late with a deletion that was not signed',
      {},
      event('delete', 11),
      'accepted',
      { aspect: 'delete', signed: false, eventTime: at(10) },
    ],
  ])('%s', (_title, knownMore, requestMore, result, change) => {
    const coalesced = coalesce({ ...known, ...knownMore }, { ...request, ...requestMore });
    expect(coalesced.result).toBe(result);
    if (change === undefined) expect(coalesced.change).toBeUndefined();
    else expect(coalesced.change).toMatchObject(change);
  });
});
