import { readVariables } from '../infra/config.ts';
import { CommandError, EXIT } from './command-error.ts';
import { inTypedNames } from './typed-names.ts';

/** The running service's admin interface. */
export interface ServiceClient {
  readonly url: string;
  /**
   * Sends a request and reads its JSON.
   * @throws ServiceAwayError when the service does not answer; CommandError when it refuses
   */
  send<Body>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<Body>;
}

/** The service does not answer at the moment; a retry may work. */
export class ServiceAwayError extends CommandError {
  override name = 'ServiceAwayError';
}

const LOOK_MS = 2000;
// Deleting or retrying a million jobs takes its time.
const REQUEST_MS = 600_000;

/**
 * Looks for the running service: at --url, else at NEXT_PUBLIC_BASE_URL, else on this machine's PORT.
 * @returns undefined when none answers
 * @throws CommandError when none answers at --url, or one answers and ADMIN_TOKEN is not set
 */
export async function findService(url: string | undefined): Promise<ServiceClient | undefined> {
  const { NEXT_PUBLIC_BASE_URL, PORT, ADMIN_TOKEN } = readVariables(['PORT'], ['NEXT_PUBLIC_BASE_URL', 'ADMIN_TOKEN']);
  const places = url === undefined ? [NEXT_PUBLIC_BASE_URL, `http://127.0.0.1:${PORT}`] : [originOf(url)];
  for (const place of places) {
    if (place === undefined || !(await isOurs(place))) continue;
    if (ADMIN_TOKEN !== undefined) return createClient(place, ADMIN_TOKEN);
    throw new CommandError(
      `The service answers at ${place}, but ADMIN_TOKEN is not set. Set it to the service's token.`,
      EXIT.usage,
    );
  }
  if (url !== undefined)
    throw new CommandError(`No service answers at ${url}. Is it running, and is the address right?`);
  return undefined;
}

/** The running service. @throws CommandError when none answers */
export async function mustFindService(url: string | undefined): Promise<ServiceClient> {
  const service = await findService(url);
  if (service) return service;
  throw new CommandError(
    'No service answers at NEXT_PUBLIC_BASE_URL or on this machine. Start it (npm start), or name it with --url.',
  );
}

function originOf(url: string): string {
  if (!/^https?:\/\/[^/]/.test(url) || !URL.canParse(url))
    throw new CommandError(`--url must be an http or https address, not "${url}".`, EXIT.usage);
  return url.replace(/\/+$/, '');
}

// The admin token is sent only to what asks for it as this service does.
async function isOurs(place: string): Promise<boolean> {
  try {
    const answer = await fetch(`${place}/api/admin/syncs`, { redirect: 'error', signal: AbortSignal.timeout(LOOK_MS) });
    await answer.arrayBuffer();
    return answer.status === 401 && (answer.headers.get('www-authenticate') ?? '').includes('realm="activity-sync"');
  } catch (error) {
    if (error instanceof TypeError || (error as Error).name === 'TimeoutError') return false;
    throw error;
  }
}

function createClient(url: string, adminToken: string): ServiceClient {
  return {
    url,
    send: async <Body>(method: string, path: string, body?: object) => {
      const answer = await request(url, method, path, adminToken, body);
      const text = await answer.text();
      if (!answer.ok) throw refusal(answer.status, text);
      return JSON.parse(text) as Body;
    },
  };
}

async function request(
  url: string,
  method: string,
  path: string,
  adminToken: string,
  body?: object,
): Promise<Response> {
  try {
    return await fetch(`${url}${path}`, {
      method,
      redirect: 'error',
      signal: AbortSignal.timeout(REQUEST_MS),
      headers: {
        authorization: `Bearer ${adminToken}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch (error) {
    const { cause } = error as { cause?: { code?: unknown } };
    throw new ServiceAwayError(`The service at ${url} does not answer (${cause?.code ?? (error as Error).message}).`);
  }
}

function refusal(status: number, text: string): CommandError {
  const problem = readProblem(text);
  // The service's own message is about the header that this program sends.
  if (status === 401)
    return new CommandError(
      'The service does not accept this ADMIN_TOKEN. Set the one that the service uses.',
      EXIT.usage,
    );
  const message =
    (problem.errors && inTypedNames(problem.errors)) ?? problem.detail ?? `The service answered ${status}.`;
  if (status === 503) return new ServiceAwayError(message);
  return new CommandError(message, status === 400 ? EXIT.usage : EXIT.failed);
}

function readProblem(text: string): { detail?: string; errors?: { field: string; message: string }[] } {
  try {
    return JSON.parse(text) as ReturnType<typeof readProblem>;
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}
