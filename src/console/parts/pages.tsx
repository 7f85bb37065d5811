import { Link, place } from '../router.tsx';

/** The address of this view with some of its parameters changed; a change begins at the first page. */
export function hereWith(changes: Record<string, string | undefined>): string {
  const query = new URLSearchParams(place.value.query);
  if (!('cursor' in changes)) query.delete('cursor');
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  return place.value.path + (text === '' ? '' : `?${text}`);
}

/** Links to older rows, and back to the newest. @param words the labels for older and first */
export function Pages({
  nextCursor,
  words = ['Newest', 'Older'],
}: {
  nextCursor: string | null;
  words?: readonly [string, string];
}) {
  const isFirst = !place.value.query.has('cursor');
  if (isFirst && nextCursor === null) return null;
  return (
    <nav class="pages" aria-label="Pages">
      {!isFirst && (
        <Link class="button" to={hereWith({ cursor: undefined })}>
          « {words[0]}
        </Link>
      )}
      {nextCursor !== null && (
        <Link class="button" to={hereWith({ cursor: nextCursor })}>
          {words[1]} »
        </Link>
      )}
    </nav>
  );
}
