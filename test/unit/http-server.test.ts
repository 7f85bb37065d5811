import { once } from 'node:events';
import { Agent, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import { listen } from '../../src/infra/http-server.ts';

const CLOSE_DEADLINE_MS = 3000;

describe('a server that closes while a proxy keeps its connection', () => {
  it('answers the current request, as the last on that connection, and waits for nothing more', async () => {
    const arrived = Promise.withResolvers<ServerResponse>();
    const server = await listen((_request, response) => arrived.resolve(response), 0);
    const agent = new Agent({ keepAlive: true });
    const asked = get({ port: server.port, agent });
    const response = await arrived.promise;
    const startedAt = performance.now();
    const closed = server.close();
    response.end('late');
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    answer.resume();
    expect(answer.statusCode).toBe(200);
    expect(answer.headers.connection).toBe('close');
    await closed;
    expect(performance.now() - startedAt).toBeLessThan(CLOSE_DEADLINE_MS);
    agent.destroy();
  });

  it('answers the next request on it too, as the last', async () => {
    const arrived = {
      '/first': Promise.withResolvers<ServerResponse>(),
      '/second': Promise.withResolvers<ServerResponse>(),
    };
    const server = await listen(({ url }, response) => arrived[url as keyof typeof arrived].resolve(response), 0);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ask = (path: keyof typeof arrived) => get({ port: server.port, path, agent });
    const [first, second] = [ask('/first'), ask('/second')];
    const begun = await arrived['/first'].promise;
    begun.flushHeaders(); // too late to say that it is the last
    const closed = server.close();
    begun.end();
    const [answer] = (await once(first, 'response')) as [IncomingMessage];
    answer.resume();
    (await arrived['/second'].promise).end();
    const [last] = (await once(second, 'response')) as [IncomingMessage];
    last.resume();
    expect([answer.headers.connection, last.headers.connection]).toEqual(['keep-alive', 'close']);
    await closed;
    agent.destroy();
  });
});
