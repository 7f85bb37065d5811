import { signal } from '@preact/signals';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { mayLook } from '../session.ts';

interface Secret {
  title: string;
  text: string;
  value: string;
  close: () => void;
}

// In memory alone, and only while it is shown: never in the address, in storage or in a field that a browser restores.
const secret = signal<Secret | null>(null);

/** Shows a secret once. Resolves when the dialog is closed. */
export function showSecret(shown: Omit<Secret, 'close'>): Promise<void> {
  return new Promise((resolve) => {
    secret.value = { ...shown, close: resolve };
  });
}

/** The one dialog that shows secrets; Escape does not close it, since the secret cannot be shown again. */
export function SecretDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const text = useRef<HTMLElement>(null);
  const [copied, setCopied] = useState<boolean | null>(null);
  const shown = mayLook() ? secret.value : null;
  useLayoutEffect(() => {
    setCopied(null);
    if (shown) dialog.current?.showModal();
    else dialog.current?.close();
  }, [shown]);
  const putAway = () => {
    secret.value = null;
    shown?.close();
  };
  const submit = (event: Event) => {
    event.preventDefault();
    putAway();
  };
  const copyIt = async () => shown && setCopied(await copy(shown.value, text.current));
  return (
    <dialog
      ref={dialog}
      onCancel={(event) => event.preventDefault()}
      onClose={() => dialog.current?.open || putAway()}
      aria-labelledby="secret-title"
      aria-describedby="secret-text"
    >
      {shown && (
        <form onSubmit={submit}>
          <h2 id="secret-title">{shown.title}</h2>
          <p id="secret-text">{shown.text}</p>
          <code class="secret" ref={text} translate={false}>
            {shown.value}
          </code>
          <p role="status" class="faint">
            {copied === null ? '' : copied ? 'Copied.' : 'Copying is not allowed here: select the text and copy it.'}
          </p>
          <div class="actions">
            <button type="button" onClick={copyIt}>
              Copy
            </button>
            <button type="submit" class="primary">
              I have stored it
            </button>
          </div>
        </form>
      )}
    </dialog>
  );
}

/** @returns whether it is in the clipboard; over plain http a browser offers only the old API */
async function copy(value: string, element: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(value);
    return true;
  } catch {
    if (element) getSelection()?.selectAllChildren(element);
    return document.execCommand('copy');
  }
}
