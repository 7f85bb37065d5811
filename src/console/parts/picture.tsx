import type { Activity } from '../api/bodies.ts';

/** An activity's picture, or a placeholder until it is drawn. */
export function Picture({ activity: { thumbnail } }: { activity: Activity }) {
  if (thumbnail === null) return <span class="picture none">picture follows</span>;
  return <img class="picture" src={thumbnail} alt="" width={256} height={256} loading="lazy" />;
}
