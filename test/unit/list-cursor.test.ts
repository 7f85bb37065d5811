import { describe, expect, it } from '@jest/globals';
import { nextCursor } from '../../src/flows/list-page.ts';
import type { ListCursor } from '../../src/store/list-walks.ts';

const at = (activityId: string, second: number) => ({ activityId, startDate: new Date(second * 1000) });
const start: ListCursor = { beforeS: 1000, page: 1, boundary: [] };

describe('the next page of an athlete’s list', () => {
  it('begins one second above the oldest start, and knows what that second holds already', () => {
    expect(nextCursor(start, [at('3', 900), at('2', 800), at('1', 800)], 200)).toEqual({
      beforeS: 801,
      page: 1,
      boundary: ['2', '1'],
    });
  });

  it('counts pages on while one second fills them', () => {
    const cursor = { beforeS: 801, page: 1, boundary: ['2'] };
    expect(nextCursor(cursor, [at('2', 800), at('1', 800)], 200)).toEqual({
      beforeS: 801,
      page: 2,
      boundary: ['2', '1'],
    });
  });

  it('asks for a small first page again in full where one second fills it', () => {
    expect(nextCursor({ ...start, beforeS: 801 }, [at('2', 800), at('1', 800)], 30)).toMatchObject({ page: 1 });
  });

  it('does not rely on the order', () => {
    expect(nextCursor(start, [at('1', 700), at('2', 900)], 200)).toMatchObject({ beforeS: 701, boundary: ['1'] });
  });

  it('stays where it is after an empty page', () => {
    expect(nextCursor(start, [], 200)).toEqual(start);
  });
});
