export type LogLevel = 'error' | 'warn' | 'info' | 'debug';

/** Takes one line of progress or of the server's log. */
export type WriteLog = (level: LogLevel, message: string) => void;

/** Put before each line of the server's log: which kind of process speaks. */
export const LOG_LINE_PREFIX = '%b|';

/**
 * Passes on one line of the server's log at the level that it has for us. What a client's own session
 * reports, the client has been told already, and decides itself whether somebody must act.
 * @param line one line, written with LOG_LINE_PREFIX
 */
export function forwardServerLine(line: string, log: WriteLog): void {
  const [, speaker, severity, message] = /^([^|]*)\|([A-Z0-9]+): {2}(.*)$/.exec(line) ?? [];
  if (severity === undefined) log('debug', line.trim());
  else log(levelOf(severity, speaker ?? ''), `${severity}: ${message}`);
}

function levelOf(severity: string, speaker: string): LogLevel {
  if (severity === 'PANIC') return 'error';
  if (speaker === 'client backend') return 'debug';
  if (severity === 'FATAL' || severity === 'ERROR') return 'error';
  return severity === 'WARNING' ? 'warn' : 'debug';
}
