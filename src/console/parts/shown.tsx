import type { ComponentChildren } from 'preact';
import type { Resource } from '../resource.ts';

/** Shows what was read, or that it is on its way, or why it is not there. */
export function Shown<Body>({
  resource,
  children,
}: {
  resource: Resource<Body>;
  children: (data: Body) => ComponentChildren;
}) {
  const { data, error, loading } = resource;
  return (
    <>
      {error && (
        <p class="notice bad" role="alert">
          {error.message}
        </p>
      )}
      {data === undefined ? (
        !error && (
          <p class="faint" aria-busy="true">
            Loading…
          </p>
        )
      ) : (
        <div class={loading ? 'stale' : undefined}>{children(data)}</div>
      )}
    </>
  );
}

/** A list that has nothing to show. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
