import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startSimulator } from '../../src/simulator/simulator.ts';
import { runsAsOtherSelf, startOtherSelf } from './child-process.ts';
import type { BenchAthlete } from './simulator-process.ts';

/**
 * A provider that answers every call for an activity at once and limits nothing, in a process of its own over
 * bare sockets: the less it costs, the more is left to the service. Its answers are the simulated provider's,
 * headers included.
 */
export interface PlainProvider {
  url: string;
  /** Athletes with so many activities each; no id is given twice. */
  addAthletes(counts: readonly number[]): BenchAthlete[];
  /** Resolves when so many calls have arrived since the last time that this resolved. @throws after five minutes */
  arrivals(count: number): Promise<void>;
  stop(): Promise<void>;
}

const FIRST_ATHLETE = 7_000_000;
/** An activity's id is its athlete's, followed by as many digits as this has zeros. */
const ACTIVITIES_OF_AN_ATHLETE = 100_000;
const FAR_FUTURE_S = 4_000_000_000;
const ARRIVALS_WITHIN_MS = 300_000;
const ANSWERS = 16;
const REQUEST = /^GET \/api\/v3\/activities\/(\d+) HTTP\/1\.1\r\n/;
const USAGE_HEADERS = ['x-ratelimit-usage', 'x-readratelimit-usage'];
const END_OF_HEAD = '\r\n\r\n';

export async function startPlainProvider(): Promise<PlainProvider> {
  const other = startOtherSelf(import.meta.url);
  const port = await other.nextMessage<number>();
  let lastAthlete = FIRST_ATHLETE;
  return {
    url: `http://127.0.0.1:${port}`,
    addAthletes: (counts) =>
      counts.map((count) => {
        lastAthlete += 1;
        const athleteId = lastAthlete;
        return {
          athleteId: String(athleteId),
          accessToken: `access-token-of-the-benchmark-${athleteId}`,
          refreshToken: `refresh-token-of-the-benchmark-${athleteId}`,
          expiresAt: FAR_FUTURE_S,
          activityIds: Array.from({ length: count }, (_, n) => String(athleteId * ACTIVITIES_OF_AN_ATHLETE + n)),
        };
      }),
    arrivals: async (count) => {
      const late = new AbortController();
      const tooLate = delay(ARRIVALS_WITHIN_MS, undefined, { signal: late.signal }).then(() => {
        throw new Error(`Fewer than ${count} calls arrived within ${ARRIVALS_WITHIN_MS / 1000} s.`);
      });
      tooLate.catch(() => undefined); // the timer is cancelled below
      try {
        await Promise.race([other.ask(count), tooLate]);
      } finally {
        late.abort();
      }
    },
    stop: () => other.stop(),
  };
}

// The other side: this same file as the child process.
if (runsAsOtherSelf(import.meta.url)) {
  const answers = await answersOfTheSimulator();
  let calls = 0; // in total: what the provider counts
  let arrived = 0; // since the last time that arrivals resolved
  let wanted = Number.POSITIVE_INFINITY;
  const tellWhenArrived = () => {
    if (arrived < wanted) return;
    arrived -= wanted;
    wanted = Number.POSITIVE_INFINITY;
    process.send?.('arrived');
  };
  const server = createServer({ noDelay: true }, (socket) =>
    serve(socket, (activityId) => {
      arrived += 1;
      calls += 1;
      tellWhenArrived();
      const answer = answers[Number(activityId) % answers.length] as AnswerFor;
      return answer(activityId, calls);
    }),
  );
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
  process.on('message', (count: number) => {
    wanted = count;
    tellWhenArrived();
  });
}

function serve(socket: Socket, answer: (activityId: string) => string): void {
  let received = '';
  socket.on('data', (bytes) => {
    received += bytes.toString('latin1');
    for (let end = received.indexOf(END_OF_HEAD); end >= 0; end = received.indexOf(END_OF_HEAD)) {
      const activityId = REQUEST.exec(received)?.[1];
      if (activityId === undefined) throw new Error(`The plain provider knows no such request: ${received}`);
      received = received.slice(end + END_OF_HEAD.length);
      socket.write(answer(activityId));
    }
  });
  socket.on('error', () => socket.destroy()); // the service was stopped
}

/** A whole answer, and in its headers how many calls were counted so far. */
type AnswerFor = (activityId: string, calls: number) => string;

/** Answers of the simulated provider, of activities that differ, each with ids and usage left to be filled in. */
async function answersOfTheSimulator(): Promise<AnswerFor[]> {
  const simulator = await startSimulator({ shortLimit: 100_000_000, dailyLimit: 100_000_000 });
  try {
    const { id: athleteId } = simulator.addAthlete();
    const { accessToken } = simulator.grantTokens(athleteId);
    const headers = { authorization: `Bearer ${accessToken}` };
    return await Promise.all(
      Array.from({ length: ANSWERS }, async () => {
        const { id } = simulator.addActivity(athleteId);
        const response = await fetch(`${simulator.url}/api/v3/activities/${id}`, { headers });
        return answerLike(response.headers, await response.text(), id, athleteId);
      }),
    );
  } finally {
    await simulator.close();
  }
}

function answerLike(headers: Headers, body: string, id: string, athleteId: string): AnswerFor {
  const given = [...headers].map(([name]) => name);
  if (USAGE_HEADERS.some((name) => !given.includes(name)))
    throw new Error('The simulated provider says its usage in other headers than the plain one.');
  const filledIn = ['content-length', ...USAGE_HEADERS];
  const head = [...headers].filter(([name]) => !filledIn.includes(name)).map(([name, value]) => `${name}: ${value}`);
  const parts = body.split(`"id":${id},"athlete":{"id":${athleteId},`);
  const [before, after] = parts;
  if (before === undefined || after === undefined || parts.length > 2)
    throw new Error('The simulated provider gives its ids otherwise than the plain one expects.');
  return (activityId, calls) => {
    const usage = USAGE_HEADERS.map((name) => `${name}: ${calls},${calls}`);
    const athlete = Math.floor(Number(activityId) / ACTIVITIES_OF_AN_ATHLETE);
    const text = `${before}"id":${activityId},"athlete":{"id":${athlete},${after}`;
    return `HTTP/1.1 200 OK\r\n${[...head, ...usage].join('\r\n')}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
  };
}
