import { expect } from '@jest/globals';

/** Fails unless the answer is a problem document of this status; resolves with it. */
export async function problemOf(response: Response, status: number) {
  const body = (await response.json()) as { errors?: { field: string }[]; detail: string };
  expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  expect({ status: response.status, body }).toMatchObject({
    status,
    body: { type: expect.any(String), title: expect.any(String), status, detail: expect.any(String) },
  });
  return { ...body, fields: body.errors?.map(({ field }) => field) };
}
