import { type Int64, MAX_INT64, toInt64 } from '../domain/int64.ts';
import { toEpochSeconds } from '../domain/moment.ts';
import { CommandError, EXIT } from './command-error.ts';

/** What a sync covers. */
export interface SyncInput {
  athleteId: Int64 | undefined;
  afterS: number | undefined;
  beforeS: number | undefined;
  force: boolean;
}

/** Checks the options before any request is made. @throws CommandError in the words of the command line */
export function toSyncInput(
  athleteId: string | undefined,
  { after, before, force = false }: { after?: string; before?: string; force?: boolean },
): SyncInput {
  const afterS = toSeconds('--after', after);
  const beforeS = toSeconds('--before', before);
  if (afterS !== undefined && beforeS !== undefined && afterS >= beforeS)
    throw new CommandError('--before must be later than --after.', EXIT.usage);
  return {
    athleteId: athleteId === undefined ? undefined : toId('The athlete’s id', athleteId),
    afterS,
    beforeS,
    force,
  };
}

/** @param name the option or argument that the id was given for */
export function toId(name: string, text: string): Int64 {
  const id = toInt64(text);
  if (id === undefined)
    throw new CommandError(`${name} must be a whole number from 1 to ${MAX_INT64}, not "${text}".`, EXIT.usage);
  return id;
}

function toSeconds(option: string, value: string | undefined): number | undefined {
  const seconds = value === undefined ? undefined : toEpochSeconds(value);
  if (value !== undefined && seconds === undefined)
    throw new CommandError(`${option} must be a time: ISO 8601, or whole seconds since the epoch.`, EXIT.usage);
  return seconds;
}
