import { randomBytes } from 'node:crypto';
import { type Finding, fault, fine } from './finding.ts';

const HANDSHAKE_MS = 2000;

/** Sends our own public address the request that the provider would send. The token goes to our own origin only. */
export async function shakeHands(callbackUrl: string, verifyToken: string | undefined): Promise<Finding> {
  const check = 'handshake';
  const challenge = randomBytes(12).toString('hex');
  const url = new URL(callbackUrl);
  url.searchParams.set('hub.mode', 'subscribe');
  url.searchParams.set('hub.challenge', challenge);
  url.searchParams.set('hub.verify_token', verifyToken ?? '');
  try {
    const answer = await fetch(url, { redirect: 'manual', signal: AbortSignal.timeout(HANDSHAKE_MS) });
    const body = await answer.text();
    if (answer.status === 200 && repeatsChallenge(body, challenge))
      return fine(check, 'The callback repeats the challenge.');
    if (answer.status === 403) {
      return fault(
        check,
        'The callback answers 403: its verify token differs from this configuration’s.',
        'Give every process the same PROVIDER_VERIFY_TOKEN, and restart them.',
      );
    }
    return fault(
      check,
      `The callback answers ${answer.status}, not 200 with the challenge.`,
      'Route the public address to a process with the role web, without a redirect or a page in between.',
    );
  } catch (error) {
    return fault(
      check,
      `The callback does not answer: ${reasonOf(error)}.`,
      'Start the service, and check the way to it from the public address: DNS, certificate, proxy, firewall.',
    );
  }
}

function repeatsChallenge(body: string, challenge: string): boolean {
  try {
    return (JSON.parse(body) as { 'hub.challenge'?: unknown })['hub.challenge'] === challenge;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

// The error's own text may hold the address, and with it the token.
function reasonOf(error: unknown): string {
  if ((error as Error).name === 'TimeoutError') return `nothing within ${HANDSHAKE_MS} ms`;
  const { cause } = error as { cause?: { code?: unknown } };
  return typeof cause?.code === 'string' ? cause.code : 'no connection';
}
