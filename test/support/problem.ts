import { expect } from '@jest/globals';

/** An answer that is a problem document. */
export interface ShownProblem {
  type: string;
  title: string;
  status: number;
  detail: string;
  errors?: { field: string; message: string }[];
}

/**
 * Reads an answer that is a problem document; fails unless it is one of this status.
 * @param status the answer's own by default
 * @returns the document, and the names of the fields that it complains of
 */
export async function problemOf(response: Response, status: number = response.status) {
  expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  const problem = (await response.json()) as ShownProblem;
  expect({ status: response.status, problem }).toMatchObject({
    status,
    problem: { type: expect.any(String), title: expect.any(String), status, detail: expect.any(String) },
  });
  return { ...problem, fields: problem.errors?.map(({ field }) => field) };
}
