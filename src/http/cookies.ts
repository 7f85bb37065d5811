import type { CookieOptions, Request, Response } from 'express';

/** A cookie of the service that scripts cannot read. If the public address is https, it has the prefix __Host-. */
export interface Cookie {
  read(request: Request): string | undefined;
  set(response: Response, value: string): void;
  clear(response: Response): void;
}

/** @param secure true if the public address is https: no other host and no plain http can then set or read it */
export function defineCookie(options: {
  name: string;
  secure: boolean;
  sameSite: 'strict' | 'lax';
  lifetimeMs: number;
}): Cookie {
  const name = options.secure ? `__Host-${options.name}` : options.name;
  const attributes: CookieOptions = { httpOnly: true, sameSite: options.sameSite, secure: options.secure, path: '/' };
  return {
    read: (request) => readCookie(request.get('cookie') ?? '', name),
    set: (response, value) => {
      response.cookie(name, value, { ...attributes, maxAge: options.lifetimeMs });
    },
    clear: (response) => {
      response.clearCookie(name, attributes);
    },
  };
}

/** The first cookie of a name in a Cookie header. */
export function readCookie(header: string, name: string): string | undefined {
  for (const part of header.split(';')) {
    const [key, ...value] = part.trim().split('=');
    if (key === name) return value.join('=');
  }
  return undefined;
}
