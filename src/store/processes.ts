import type { Queryable } from '../infra/database.ts';
import { PROCESS_LOCK_CLASS } from '../infra/presence.ts';

/** A process of the service. */
export interface ProcessRow {
  id: string;
  host: string;
  pid: number;
  roles: string[];
  version: string;
  startedAt: Date;
  lastSeenAt: Date;
  /** It holds its lock: its connection to the database is up. */
  alive: boolean;
  /** Jobs in hand. */
  fetching: number;
  drawing: number;
}

/** The processes that were seen within the last day, live ones first. */
export async function listProcesses(database: Queryable): Promise<ProcessRow[]> {
  return database.query<ProcessRow>(PROCESSES, [PROCESS_LOCK_CLASS]);
}

const PROCESSES = `
  SELECT p.process_id::text AS id, p.host, p.pid, p.roles, p.version, p.started_at AS "startedAt", p.last_seen_at AS "lastSeenAt",
    EXISTS (
      SELECT FROM pg_locks l
      WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.classid = $1::integer::oid AND l.objid = p.process_id::oid AND l.objsubid = 2 AND l.granted) AS alive,
    count(c.*) FILTER (WHERE c.queue = 'activity-fetch')::int AS fetching,
    count(c.*) FILTER (WHERE c.queue = 'thumbnail')::int AS drawing
  FROM process p LEFT JOIN job_claim c ON c.process_id = p.process_id
  WHERE p.last_seen_at > now() - interval '1 day'
  GROUP BY p.process_id
  ORDER BY alive DESC, p.started_at`;

/** How much waits in a queue, and for how long its oldest job has been due. */
export interface QueueDepth {
  waiting: number;
  running: number;
  oldestDueS: number;
}

/** The queue of pictures. Counts its waiting jobs: not to be read for each request (see paced-read.ts). */
export async function readThumbnailDepth(database: Queryable): Promise<QueueDepth> {
  const [row] = await database.query<QueueDepth>(
    `SELECT count(*) FILTER (WHERE waiting)::int AS waiting, count(*) FILTER (WHERE running)::int AS running,
       coalesce(greatest(0, extract(epoch FROM sync_now() - min(start_after) FILTER (WHERE waiting AND start_after <= sync_now()))), 0)::float8
         AS "oldestDueS"
     FROM thumbnail_queue() WHERE waiting OR running`,
    [],
  );
  return row as QueueDepth;
}
