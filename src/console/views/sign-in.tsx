import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, ask } from '../api/client.ts';
import { access, closedReason, wasEnded } from '../session.ts';

/** Asks for the admin token, or the read-only one. */
export function SignInView() {
  const [problem, setProblem] = useState('');
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = 'Sign in · Activity Sync';
    field.current?.focus();
  }, []);
  const signIn = async (event: Event) => {
    event.preventDefault();
    try {
      const token = field.current?.value ?? '';
      access.value = (
        await ask<{ access: 'read' | 'admin' }>('POST', '/api/admin/session', { body: { token } })
      ).access;
      wasEnded.value = false;
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
      field.current?.select();
    }
  };
  const form = (
    <form onSubmit={signIn}>
      <label for="token">Admin token, or the read-only token</label>
      <input
        id="token"
        ref={field}
        type="password"
        autoComplete="current-password"
        required
        aria-describedby="problem"
      />
      <p id="problem" role="alert">
        {problem}
      </p>
      <button type="submit" class="primary">
        Sign in
      </button>
    </form>
  );
  return (
    <main class="sign-in">
      <img src="/admin/assets/icon.svg" alt="" width={48} height={48} />
      <h1>Activity Sync</h1>
      {wasEnded.value && (
        <p class="notice waiting" role="status">
          Your session has ended: it expired after twelve hours, or the token was changed. Sign in to continue where you
          were.
        </p>
      )}
      {closedReason.value === '' ? form : <p role="alert">{closedReason.value}</p>}
    </main>
  );
}
