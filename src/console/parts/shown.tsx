import type { ComponentChildren } from 'preact';
import { passesByItself, type Resource } from '../resource.ts';
import { Age } from './moment.tsx';

/** Shows what was read, or that it is loading, or why it failed. */
export function Shown<Body>({
  resource,
  children,
}: {
  resource: Resource<Body>;
  children: (data: Body) => ComponentChildren;
}) {
  const { data, error, loading, readAt, reload } = resource;
  return (
    <>
      {error && (
        <div class="notice bad">
          <p role="alert">{error.message}</p>
          {data !== undefined && readAt !== undefined && (
            <p>
              What is shown below was read <Age at={new Date(readAt).toISOString()} />.
            </p>
          )}
          {error.status !== 404 && !passesByItself(error) && (
            <button type="button" class="small" onClick={reload}>
              Try again
            </button>
          )}
        </div>
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
