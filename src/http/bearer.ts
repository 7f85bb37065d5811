import type { Request } from 'express';

/** The bearer token that a request carries. */
export function bearerOf(request: Request): string | undefined {
  return /^Bearer ([^\s]+)$/i.exec(request.get('authorization') ?? '')?.[1];
}
