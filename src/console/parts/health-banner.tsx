import type { Overview } from '../api/bodies.ts';
import { now } from '../clock.ts';
import { assessHealth, type Health } from '../health.ts';
import { Link } from '../router.tsx';
import { Icon } from './icon.tsx';

// Said aloud only when it changes; the sentence itself has figures that change all the time.
const ALOUD: Record<Health['level'], string> = {
  good: 'The service is well.',
  waiting: 'The service waits for the provider.',
  bad: 'The service needs attention.',
};

/** Whether all is well, and what deserves a look. */
export function HealthBanner({ overview }: { overview: Overview }) {
  const { level, sentence, notes } = assessHealth(overview, now.value);
  return (
    <div class={`health ${level}`}>
      <Icon name={level} />
      <div>
        <p class="sentence">{sentence}</p>
        <p class="sr-only" role="status">
          {ALOUD[level]}
        </p>
        {notes.length > 0 && (
          <ul class="notes">
            {notes.map(({ text, to }) => (
              <li key={text}>
                <Link to={to}>{text}</Link>
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}
