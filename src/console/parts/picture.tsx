import type { Activity } from '../api/bodies.ts';

/** An activity's picture; the time of its fetch in the address makes the browser ask for a newer one. */
export function Picture({ activity }: { activity: Activity }) {
  if (activity.thumbnail === null) return <span class="picture none">picture follows</span>;
  const address = `${activity.thumbnail}?of=${encodeURIComponent(activity.fetchedAt)}`;
  return <img class="picture" src={address} alt="" width={256} height={256} loading="lazy" />;
}
