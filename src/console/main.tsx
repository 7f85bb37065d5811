import './usable-language.ts';
import { render } from 'preact';
import { ask } from './api/client.ts';
import { App } from './app.tsx';
import { startClock } from './clock.ts';
import { startLive } from './live.ts';
import { Keyboard } from './parts/keyboard.tsx';
import { startRouter } from './router.tsx';
import { access } from './session.ts';

const RETRY_MS = 3000;

startClock();
startRouter();
startLive();
render(
  <>
    <App />
    <Keyboard />
  </>,
  document.getElementById('console') as HTMLElement,
);
askWhoLooks();

// A 401 shows the sign-in; after anything else the request is repeated.
function askWhoLooks(): void {
  ask<{ access: 'read' | 'admin' }>('GET', '/api/admin/session').then(
    (session) => {
      access.value = session.access;
    },
    () => {
      if (access.peek() === 'unknown') setTimeout(askWhoLooks, RETRY_MS);
    },
  );
}
