import type { Request } from 'express';
import { type Int64, toInt64 } from '../domain/int64.ts';
import type { Database } from '../infra/database.ts';
import type { Logger } from '../infra/logger.ts';
import { type AuditEntry, beginAuditEntry, endAuditEntry } from '../store/audit.ts';
import type { Access } from './admin-auth.ts';
import { Problem } from './problem.ts';

/** What a handler adds about its change, beyond path and query. Never a token or a name. */
export interface AuditNote {
  /** The athlete whom the change concerned; the entry loses its details when they are erased. */
  athleteId?: Int64 | undefined;
  target?: string | undefined;
  detail?: Record<string, unknown>;
}

/** Records who changed what. */
export interface Audit {
  /**
   * Writes the entry, lets the change happen, and adds its result to the entry.
   * @param by who the guard found; for an application with the name of its token
   */
  accompany<A extends { status: number; audit?: AuditNote } | undefined>(
    by: { who: AuditEntry['who']; tokenName?: string },
    request: Request,
    path: string,
    change: () => Promise<A>,
  ): Promise<A>;
  /** Writes down a session that is started. */
  signedIn(access: Access, action: string): Promise<void>;
  /** Writes down the wrong tokens of a minute; the log has them also where this fails. */
  authenticationFailed(detail: { address: string; count: number; addresses?: number }): Promise<void>;
}

const ATHLETE_PATH = /^\/api\/(admin|v1)\/athletes\/:id/;

export function createAudit(database: Database, logger: Logger): Audit {
  // The change is already made: an entry without its result says less, but nothing false.
  const end = async (id: Int64, result: AuditNote & { status: number }): Promise<void> => {
    try {
      await database.transaction((tx) => endAuditEntry(tx, id, result));
    } catch (error) {
      logger.warn('result of a change not written to the audit', {
        component: 'audit',
        entry: id,
        error: (error as Error).message,
      });
    }
  };

  return {
    accompany: async ({ who, tokenName }, request, path, change) => {
      const { id } = request.params;
      const query = request.query as Record<string, string>;
      const entry = await beginAuditEntry(database, {
        who,
        action: `${request.method} ${path}`,
        target: typeof id === 'string' ? id : undefined,
        detail: tokenName === undefined ? query : { ...query, token: tokenName },
        athleteId: toInt64(ATHLETE_PATH.test(path) ? id : query.athleteId),
      });
      try {
        const answer = await change();
        await end(entry, { status: answer?.status ?? 200, ...answer?.audit });
        return answer;
      } catch (error) {
        await end(entry, { status: error instanceof Problem ? error.status : 500 });
        throw error;
      }
    },
    authenticationFailed: async (detail) => {
      try {
        await beginAuditEntry(database, { who: 'nobody', action: 'authentication failed', detail, status: 401 });
      } catch (error) {
        logger.warn('refused tokens not written to the audit', { component: 'audit', error: (error as Error).message });
      }
    },
    signedIn: async (access, action) => {
      const entry = await beginAuditEntry(database, { who: access, action, detail: {} });
      await end(entry, { status: 200 });
    },
  };
}
