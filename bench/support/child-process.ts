import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** A module that runs itself again, in a process of its own, so that its work does not burden the measured one. */
export interface OtherSelf {
  /** The next message it sends. @throws when it ends instead */
  nextMessage<Message>(): Promise<Message>;
  /** Sends, and resolves with what comes next. */
  ask<Answer>(question: string | number | object): Promise<Answer>;
  /** Lets it end, and waits for that. */
  stop(): Promise<void>;
}

/** @param moduleUrl import.meta.url of the module, which calls runsAsOtherSelf to know its side */
export function startOtherSelf(
  moduleUrl: string,
  args: readonly string[] = [],
  env: NodeJS.ProcessEnv = process.env,
): OtherSelf {
  const child = fork(fileURLToPath(moduleUrl), args, { execArgv: [], env });
  const ended = once(child, 'exit');
  const nextMessage = async <Message>(): Promise<Message> => {
    const early = ended.then(([code]) => {
      throw new Error(`${moduleUrl} ended with ${code} before it answered.`);
    });
    const [message] = await Promise.race([once(child, 'message'), early]);
    return message as Message;
  };
  return {
    nextMessage,
    ask: <Answer>(question: string | number | object) => {
      const answer = nextMessage<Answer>();
      child.send(question);
      return answer;
    },
    stop: async () => {
      if (child.connected) child.disconnect();
      await ended;
    },
  };
}

/** Whether this process is the one that startOtherSelf started. It ends on the other side's request, or with it. */
export function runsAsOtherSelf(moduleUrl: string): boolean {
  if (!process.send || process.argv[1] !== fileURLToPath(moduleUrl)) return false;
  process.on('disconnect', () => process.exit(0));
  return true;
}
