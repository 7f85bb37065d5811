import { signal } from '@preact/signals';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

interface Question {
  title: string;
  text: string;
  action: string;
  /** What must be typed to confirm an action that cannot be undone. */
  typed?: string;
  /** Destructive: its button is red. */
  destroys?: boolean;
  answer: (yes: boolean) => void;
}

const question = signal<Question | null>(null);

/** Asks for confirmation of a change. @returns whether to do it */
export function confirmed(asked: Omit<Question, 'answer'>): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = { ...asked, answer: resolve };
  });
}

/** The confirmation dialog; the page has one. */
export function ConfirmDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState('');
  const asked = question.value;
  useLayoutEffect(() => {
    setTyped('');
    if (asked) dialog.current?.showModal();
  }, [asked]);
  const close = (yes: boolean) => {
    dialog.current?.close();
    question.value = null;
    asked?.answer(yes);
  };
  const cancel = (event: Event) => {
    event.preventDefault();
    close(false);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    close(true);
  };
  return (
    <dialog ref={dialog} onCancel={cancel} aria-labelledby="confirm-title" aria-describedby="confirm-text">
      {asked && (
        <form onSubmit={submit}>
          <h2 id="confirm-title">{asked.title}</h2>
          <p id="confirm-text">{asked.text}</p>
          {asked.typed !== undefined && (
            <label>
              <span>Type {asked.typed} to continue</span>
              <input value={typed} autoComplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
            </label>
          )}
          <div class="actions">
            <button type="button" onClick={() => close(false)}>
              Cancel
            </button>
            <button
              type="submit"
              class={asked.destroys ? 'danger' : 'primary'}
              disabled={asked.typed !== undefined && typed.trim() !== asked.typed}
            >
              {asked.action}
            </button>
          </div>
        </form>
      )}
    </dialog>
  );
}
