import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { place } from '../router.tsx';
import { mayChange } from '../session.ts';
import { SearchButton } from './keyboard.tsx';

let shownPath: string | undefined;

/** The frame of a view: its title, which takes the focus when one comes from another view, and its actions. */
export function Page({
  title,
  lead,
  actions,
  children,
}: {
  title: string;
  lead?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  const { path } = place.value;
  useEffect(() => {
    document.title = `${title} · Activity Sync`;
  }, [title]);
  useEffect(() => {
    if (shownPath !== undefined && shownPath !== path) heading.current?.focus();
    shownPath = path;
  }, [path]);
  return (
    <>
      <div class="page-head">
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        <div class="actions">
          {actions}
          {mayChange() && <SearchButton />}
        </div>
      </div>
      {children}
    </>
  );
}

/** A part of a view with a heading of its own. */
export function Card({
  title,
  aside,
  children,
  wide,
}: {
  title: string;
  aside?: ComponentChildren;
  children: ComponentChildren;
  wide?: boolean;
}) {
  return (
    <section class={`card${wide ? ' wide' : ''}`}>
      <div class="card-head">
        <h2>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

/** Names and values. */
export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren] | false | undefined)[] }) {
  return (
    <dl class="facts">
      {of.map(
        (fact) =>
          fact && (
            <div key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
