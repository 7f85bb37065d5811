/** Exit codes of the command line. */
export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** A command that cannot do its work, for a foreseen reason; the message says what to do. */
export class CommandError extends Error {
  override name = 'CommandError';
  readonly exitCode: number;
  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}
