import { Writable } from 'node:stream';
import winston from 'winston';
import { createLogger, type Logger } from '../../src/infra/logger.ts';

/**
 * A logger of the service whose lines a test can read; `lines.splice(0)` begins anew.
 * @param secrets taken out of its lines; none unless given, so that what is not in a line need not be taken out
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
