import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';

/**
 * Whether the client has this version already, by its If-None-Match. Express compares too, but sends the body again to
 * a client that sends Cache-Control: no-cache, as fetch() does with every If-None-Match.
 */
export function isKnownTo(request: Request, etag: string): boolean {
  const known = (request.get('if-none-match') ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return known.includes(etag.replace(/^W\//, '')) || known.includes('*');
}

/** Answers 200 with JSON and an ETag made from it, or 304 to a client that already has it. @param json the text of the body */
export function sendJsonWithEtag(request: Request, response: Response, json: string): void {
  const etag = `"${createHash('sha256').update(json).digest('base64url').slice(0, 22)}"`;
  response.set('Cache-Control', 'private, no-cache').set('ETag', etag);
  if (isKnownTo(request, etag)) response.status(304).end();
  else response.type('json').send(json);
}
