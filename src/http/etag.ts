import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';
import { Problem } from './problem.ts';

/**
 * Whether the client has this version already, by its If-None-Match. Express compares too, but sends the body again to
 * a client that sends Cache-Control: no-cache, as fetch() does with every If-None-Match.
 */
function isKnownTo(request: Request, etag: string): boolean {
  const known = (request.get('if-none-match') ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return known.includes(etag.replace(/^W\//, '')) || known.includes('*');
}

/** Answers 200 with JSON and an ETag made from it, or 304 to a client that already has it. @param json the text of the body */
export function sendJsonWithEtag(request: Request, response: Response, json: string): void {
  const etag = `"${createHash('sha256').update(json).digest('base64url').slice(0, 22)}"`;
  sendWithEtag(request, response, { etag, type: 'json', content: json });
}

/** Answers 200 with an activity's picture, or 304. @throws Problem 404 when there is none */
export function sendThumbnail(
  request: Request,
  response: Response,
  thumbnail: { png: Buffer; etag: string } | undefined,
): void {
  if (!thumbnail) throw new Problem('notFound', 'There is no picture of this activity.');
  sendWithEtag(request, response, { etag: thumbnail.etag, type: 'image/png', content: thumbnail.png });
}

function sendWithEtag(
  request: Request,
  response: Response,
  answer: { etag: string; type: string; content: string | Buffer },
): void {
  response.set('Cache-Control', 'private, no-cache').set('ETag', answer.etag);
  if (isKnownTo(request, answer.etag)) response.status(304).end();
  else response.type(answer.type).send(answer.content);
}
