import { Writable } from 'node:stream';
import winston from 'winston';
import { createLogger, type Logger } from '../../src/infra/logger.ts';

/**
 * A logger of the service whose lines a test can read; `lines.splice(0)` clears them.
 * @param secrets removed from its lines; none by default, so that a test sees every secret in its lines
 */
export function keepLog(level = 'debug', secrets: string[] = []): { logger: Logger; lines: string[] } {
  const lines: string[] = [];
  const stream = new Writable({
    write: (line, _encoding, done) => {
      lines.push(String(line));
      done();
    },
  });
  const logger = createLogger({ level, secrets, pretty: false });
  logger.clear().add(new winston.transports.Stream({ stream }));
  return { logger, lines };
}
