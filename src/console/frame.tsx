import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, ask } from './api/client.ts';
import { formatTime } from './format.ts';
import { connection, pause, resume, silentSince } from './live.ts';
import { Icon, type IconName } from './parts/icon.tsx';
import { tell } from './parts/messages.tsx';
import { Link, place } from './router.tsx';
import { access } from './session.ts';

/** @property below another path whose pages belong to this view */
const VIEWS: readonly { to: string; name: string; icon: IconName; below?: string }[] = [
  { to: '/', name: 'Overview', icon: 'overview' },
  { to: '/jobs', name: 'Jobs', icon: 'jobs' },
  { to: '/athletes', name: 'Athletes', icon: 'athletes' },
  { to: '/activities', name: 'Activities', icon: 'activities' },
  { to: '/deliveries', name: 'Deliveries', icon: 'deliveries' },
  { to: '/subscriptions', name: 'Subscriptions', icon: 'subscriptions' },
  { to: '/application', name: 'Application', icon: 'application', below: '/endpoints' },
  { to: '/processes', name: 'Processes', icon: 'processes' },
  { to: '/audit', name: 'Audit', icon: 'audit' },
];

/** The frame around every view: navigation, whether the page is live, and sign-out. */
export function Frame({ children }: { children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  const { path } = place.value;
  useEffect(() => setOpen(false), [path]);
  return (
    <div class={`frame${isOpen ? ' open' : ''}`}>
      <a class="skip" href="#view">
        Skip to the view
      </a>
      <header>
        <Link class="brand" to="/">
          <img src="/admin/assets/icon.svg" alt="" width={28} height={28} /> Activity Sync
        </Link>
        <LiveSwitch />
        <button
          type="button"
          class="menu quiet"
          aria-expanded={isOpen}
          aria-controls="views"
          aria-label="Menu"
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name="menu" />
        </button>
        <nav id="views" aria-label="Views">
          <ul>
            {VIEWS.map(({ to, name, icon, below }) => (
              <li key={to}>
                <Link to={to} current={isCurrent(to, path) || (below && isCurrent(below, path)) ? 'page' : undefined}>
                  <Icon name={icon} /> {name}
                </Link>
              </li>
            ))}
          </ul>
          <div class="who">
            <span>{access.value === 'admin' ? 'Signed in as admin' : 'Signed in read-only'}</span>
            <button type="button" class="quiet" onClick={signOut}>
              Sign out
            </button>
          </div>
        </nav>
      </header>
      <main id="view">
        <Silence />
        {children}
      </main>
    </div>
  );
}

const WORDS = { live: 'Live', connecting: 'Connecting…', paused: 'Paused' };

/** Shown above every view while its content may be out of date. */
function Silence() {
  const since = silentSince.value;
  if (since === null) return null;
  return (
    <p class="notice bad" role="alert">
      Not updated since {formatTime(new Date(since).toISOString())}: the service or its database does not answer. It is
      trying again; this page catches up when it succeeds.
    </p>
  );
}

function LiveSwitch() {
  const state = connection.value;
  const since = silentSince.value;
  const words = since === null ? WORDS[state] : `Not updated since ${formatTime(new Date(since).toISOString())}`;
  return (
    <div class={`live ${since === null ? state : 'silent'}`}>
      <span class="dot" /> <span>{words}</span>
      <button type="button" class="small" onClick={state === 'paused' ? resume : pause}>
        <Icon name={state === 'paused' ? 'play' : 'pause'} />{' '}
        <span class="word">{state === 'paused' ? 'Follow' : 'Pause'}</span>
      </button>
    </div>
  );
}

function isCurrent(to: string, path: string): boolean {
  return to === '/' ? path === '/' : path === to || path.startsWith(`${to}/`);
}

async function signOut(): Promise<void> {
  try {
    await ask('DELETE', '/api/admin/session');
    access.value = 'none';
    tell('Signed out.');
  } catch (error) {
    tell(`You are still signed in. ${error instanceof ApiError ? error.message : String(error)}`, true);
  }
}
