import { Link } from '../router.tsx';

/** An activity's id: leads to what is stored of it, or to its job. */
export function ActivityLink({ of }: { of: { activityId: string; outcome: string | null } }) {
  const isStored = of.outcome === 'stored' || of.outcome === 'skipped';
  return (
    <Link class="id" to={isStored ? `/activities/${of.activityId}` : `/jobs?activityId=${of.activityId}`}>
      {of.activityId}
    </Link>
  );
}
