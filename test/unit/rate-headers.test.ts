import { describe, expect, it } from '@jest/globals';
import { readRateHeaders } from '../../src/provider/rate-headers.ts';

const overall = { 'x-ratelimit-limit': '600,30000', 'x-ratelimit-usage': '314,27536' };
const read = { 'x-readratelimit-limit': '300,15000', 'x-readratelimit-usage': '100,14000' };

describe('the provider’s rate headers', () => {
  it('say limit and usage of the window and of the day', () => {
    expect(readRateHeaders(overall)).toEqual({ limit: 600, used: 314, dailyLimit: 30_000, dailyUsed: 27_536 });
  });

  it('of reading count where they leave less, window and day each for itself', () => {
    expect(readRateHeaders({ ...overall, ...read })).toEqual({
      limit: 300,
      used: 100,
      dailyLimit: 15_000,
      dailyUsed: 14_000,
    });
    expect(readRateHeaders({ ...overall, ...read, 'x-readratelimit-usage': '0,0' })).toEqual({
      limit: 600,
      used: 314,
      dailyLimit: 30_000,
      dailyUsed: 27_536,
    });
    expect(readRateHeaders(read)).toMatchObject({ limit: 300, dailyUsed: 14_000 });
  });

  it('may have blanks, and come as a list', () => {
    expect(readRateHeaders({ 'x-ratelimit-limit': ' 600 , 30000 ', 'x-ratelimit-usage': ['1,2', '3,4'] })).toEqual({
      limit: 600,
      used: 1,
      dailyLimit: 30_000,
      dailyUsed: 2,
    });
  });

  it.each([
    ['missing', {}],
    ['half of them missing', { 'x-ratelimit-limit': '600,30000' }],
    ['one number', { 'x-ratelimit-limit': '600', 'x-ratelimit-usage': '1,2' }],
    ['three numbers', { 'x-ratelimit-limit': '600,1,2', 'x-ratelimit-usage': '1,2,3' }],
    ['negative', { 'x-ratelimit-limit': '600,30000', 'x-ratelimit-usage': '-1,2' }],
    ['no numbers', { 'x-ratelimit-limit': 'many,more', 'x-ratelimit-usage': '1,2' }],
    ['a limit of nothing for the window', { 'x-ratelimit-limit': '0,30000', 'x-ratelimit-usage': '0,2' }],
    ['a limit of nothing for the day', { 'x-ratelimit-limit': '600,0', 'x-ratelimit-usage': '1,0' }],
    ['empty', { 'x-ratelimit-limit': '', 'x-ratelimit-usage': '' }],
    ['beyond all reason', { 'x-ratelimit-limit': '99999999999,1', 'x-ratelimit-usage': '1,2' }],
  ])('say nothing when they are %s', (_case, headers) => {
    expect(readRateHeaders(headers)).toBeUndefined();
  });
});
