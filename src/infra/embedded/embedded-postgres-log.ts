export type LogLevel = 'error' | 'warn' | 'info' | 'debug';

/** Takes one line of progress or of the server's log. */
export type WriteLog = (level: LogLevel, message: string) => void;

/** The prefix of each line of the server's log: the kind of process that wrote it. */
export const LOG_LINE_PREFIX = '%b|';

/** A session of a client, before and after it is admitted. */
const CLIENT_SPEAKERS = ['client backend', 'dead-end client backend', 'not initialized'];

/**
 * Passes on one line of the server's log at the level that fits us. A client already knows what its own session
 * reports, and decides whether an operator must act.
 * @param line one line, written with LOG_LINE_PREFIX
 */
export function forwardServerLine(line: string, log: WriteLog): void {
  const [, speaker = '', severity, message = ''] = /^([^|]*)\|([A-Z0-9]+): {2}(.*)$/.exec(line) ?? [];
  if (severity === undefined) log('debug', line.trim());
  else log(levelOf(severity, speaker, message), `${severity}: ${message}`);
}

function levelOf(severity: string, speaker: string, message: string): LogLevel {
  if (severity === 'PANIC') return 'error';
  if (CLIENT_SPEAKERS.includes(speaker)) return 'debug';
  // A part of the server that ends on request.
  if (message.includes('due to administrator command')) return 'debug';
  if (severity === 'FATAL' || severity === 'ERROR') return 'error';
  if (severity === 'WARNING') return 'warn';
  // Recovery after a crash can take minutes, and shows its progress.
  return speaker === 'startup' && !message.startsWith('database system was shut down') ? 'info' : 'debug';
}
