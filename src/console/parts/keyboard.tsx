import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Found } from '../api/bodies.ts';
import { ApiError, ask, withQuery } from '../api/client.ts';
import { Link, place } from '../router.tsx';
import { mayLook } from '../session.ts';

const opened = signal<'search' | 'help' | null>(null);
const TYPING_MS = 150;

/** Opens the search, as the key does. */
export function SearchButton() {
  return (
    <button
      type="button"
      class="quiet"
      aria-label="Search"
      aria-keyshortcuts="/"
      onClick={() => {
        opened.value = 'search';
      }}
    >
      Search <kbd>/</kbd>
    </button>
  );
}

/** Listens to the keys, and holds the dialogs that they open; the page has one. */
export function Keyboard() {
  useEffect(() => {
    addEventListener('keydown', press);
    // At once: an effect of the next view would close what a quick hand has opened there.
    const unfollow = place.subscribe(close);
    return () => {
      removeEventListener('keydown', press);
      unfollow();
    };
  }, []);
  if (!mayLook()) return null;
  if (opened.value === 'search') return <Search />;
  return opened.value === 'help' ? <Help /> : null;
}

function press(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || !mayLook()) return;
  const target = event.target as HTMLElement;
  if (target.closest('input:not([type=checkbox]), textarea, select, dialog') || document.querySelector('dialog[open]'))
    return;
  const asked = { '/': 'search', '?': 'help' }[event.key] as 'search' | 'help' | undefined;
  if (!asked) return;
  event.preventDefault();
  opened.value = asked;
}

function close(): void {
  opened.value = null;
}

function Modal({ title, children }: { title: string; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="keyboard-title" onClose={close}>
      <h2 id="keyboard-title">{title}</h2>
      {children}
      <form method="dialog" class="actions">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}

/** Finds jobs, activities and athletes while the operator types. */
function Search() {
  const [text, setText] = useState('');
  const [found, setFound] = useState<{ of: string; results: Found[]; problem?: string }>({ of: '', results: [] });
  const wanted = text.trim();
  useEffect(() => {
    if (wanted === '') return;
    const abort = new AbortController();
    const read = async () => {
      try {
        const answer = await ask<{ found: Found[] }>('GET', withQuery('/api/admin/search', { q: wanted }), {
          signal: abort.signal,
        });
        setFound({ of: wanted, results: answer.found });
      } catch (error) {
        if (!abort.signal.aborted)
          setFound({ of: wanted, results: [], problem: error instanceof ApiError ? error.message : String(error) });
      }
    };
    const timer = setTimeout(read, TYPING_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [wanted]);
  const first = useRef<HTMLUListElement>(null);
  const follow = (event: Event) => {
    event.preventDefault();
    if (found.of === wanted) first.current?.querySelector('a')?.click();
  };
  const isRead = wanted !== '' && found.of === wanted;
  return (
    <Modal title="Search">
      <form class="search" onSubmit={follow}>
        <label>
          <span>Job, activity or athlete, by id or name</span>
          <input
            inputMode="search"
            maxLength={100}
            autoComplete="off"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
      </form>
      <p class="faint" role="status">
        {isRead &&
          (found.problem ??
            (found.results.length === 0
              ? 'Nothing has this id or name.'
              : `${found.results.length} found. Enter opens the first.`))}
      </p>
      {isRead && (
        <ul class="found" ref={first}>
          {found.results.map((one) => (
            <li key={`${one.kind} ${one.id}`}>
              <Link to={addressOf(one)}>
                <b>{one.kind}</b> <span class="id">{one.id}</span> {wordsOf(one)}
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Modal>
  );
}

function addressOf({ kind, id }: Found): string {
  return { job: `/jobs/${id}`, activity: `/activities/${id}`, athlete: `/athletes/${id}` }[kind];
}

function wordsOf(one: Found): string {
  if (one.kind === 'job') return `of activity ${one.activityId}`;
  return one.name ?? '';
}

const KEYS: readonly [string, string][] = [
  ['/', 'Search jobs, activities and athletes by id or name'],
  ['?', 'Show this help'],
  ['Esc', 'Close a dialog without a change'],
  ['Tab', 'Go to the next link, button or field'],
  ['Space', 'Select a row, or press a button'],
  ['Enter', 'Follow a link, or apply a filter'],
];

function Help() {
  return (
    <Modal title="Keyboard">
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}
