import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

const BASE = '/admin';

/** Where the browser is: the path below /admin, and the query. */
export const place = signal(read());

function read(): { path: string; query: URLSearchParams } {
  const path = location.pathname.slice(BASE.length).replace(/\/+$/, '');
  return { path: path === '' ? '/' : path, query: new URLSearchParams(location.search) };
}

/** Follows the browser's own back and forward. */
export function startRouter(): void {
  addEventListener('popstate', () => {
    place.value = read();
  });
}

/** Goes to an address below /admin. @param replace adds no history entry, as for a changed filter */
export function go(to: string, replace = false): void {
  const address = addressOf(to);
  if (address === location.pathname + location.search) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', address);
  const before = place.value.path;
  place.value = read();
  if (place.value.path !== before) scrollTo(0, 0);
}

export function addressOf(to: string): string {
  return `${BASE}${to === '/' ? '' : to}`;
}

/** A link below /admin that does not reload the page; opening it in a new tab works as usual. */
export function Link({
  to,
  children,
  class: className,
  current,
}: {
  to: string;
  children: ComponentChildren;
  class?: string;
  /** What it is the current one of; undefined when it is not. */
  current?: 'page' | 'true' | undefined;
}) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a href={addressOf(to)} class={className} aria-current={current} onClick={follow}>
      {children}
    </a>
  );
}
