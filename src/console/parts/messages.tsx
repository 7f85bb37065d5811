import { signal } from '@preact/signals';
import { ApiError } from '../api/client.ts';

interface Message {
  text: string;
  isError: boolean;
}

const message = signal<Message | null>(null);
const SHOWN_MS = 8000;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Shows the result of an action, and announces it to screen readers. */
export function tell(text: string, isError = false): void {
  clearTimeout(timer);
  message.value = { text, isError };
  if (!isError) timer = setTimeout(hide, SHOWN_MS);
}

function hide(): void {
  message.value = null;
}

/** Runs an action and shows its result. @returns undefined when it failed */
export async function act<Result>(
  work: () => Promise<Result>,
  success: (result: Result) => string,
): Promise<Result | undefined> {
  try {
    const result = await work();
    tell(success(result));
    return result;
  } catch (error) {
    tell(error instanceof ApiError ? error.message : String(error), true);
    return undefined;
  }
}

/** Where messages appear; always in the page, so that screen readers watch it. */
export function Messages() {
  const shown = message.value;
  return (
    <div class="messages">
      <div role="status">{shown && !shown.isError ? shown.text : null}</div>
      <div role="alert">{shown?.isError ? shown.text : null}</div>
      {shown && (
        <button type="button" class="quiet" onClick={hide}>
          Dismiss
        </button>
      )}
    </div>
  );
}
