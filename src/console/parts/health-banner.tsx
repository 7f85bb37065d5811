import type { Overview } from '../api/bodies.ts';
import { now } from '../clock.ts';
import { assessHealth, type Health, UNKNOWN_HEALTH } from '../health.ts';
import { Link } from '../router.tsx';
import { Icon } from './icon.tsx';

// Said aloud only when it changes; the sentence itself has figures that change all the time.
const ALOUD: Record<Health['level'], string> = {
  good: 'The service is well.',
  waiting: 'The service waits for the provider.',
  bad: 'The service needs attention.',
  unknown: 'How the service stands is not known.',
};

/** Whether all is well, and what deserves a look. @param isOld whether the figures could not be read anew */
export function HealthBanner({ overview, isOld }: { overview: Overview; isOld: boolean }) {
  const { level, sentence, notes } = isOld ? UNKNOWN_HEALTH : assessHealth(overview, now.value);
  const look = level === 'unknown' ? 'bad' : level;
  return (
    <div class={`health ${look}`}>
      <Icon name={look} />
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
