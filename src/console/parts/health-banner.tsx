import type { Overview } from '../api/bodies.ts';
import { now } from '../clock.ts';
import { assessHealth, type Health, type Judgement, UNKNOWN_HEALTH } from '../health.ts';
import { Link } from '../router.tsx';
import { Icon } from './icon.tsx';

// Announced only when the level changes; the sentences contain figures that change all the time.
const ALOUD: Record<Health['level'], string> = {
  good: 'The service is healthy.',
  waiting: 'The service is waiting for the provider.',
  warning: 'Something may be wrong with the service.',
  bad: 'The service needs attention.',
};
const UNKNOWN: Health = { level: 'bad', judgements: [UNKNOWN_HEALTH], notes: [] };

/** Whether all is well, and what needs attention. @param isOld whether the figures could not be read again */
export function HealthBanner({ overview, isOld }: { overview: Overview; isOld: boolean }) {
  const { level, judgements, notes } = isOld ? UNKNOWN : assessHealth(overview, now.value);
  return (
    <div class={`health ${level}`}>
      <Icon name={level === 'warning' ? 'bad' : level} />
      <div>
        {judgements.map((judgement) => (
          <Sentence key={judgement.sentence} {...judgement} />
        ))}
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

function Sentence({ level, sentence, to, runbook }: Judgement) {
  return (
    <p class={`sentence ${level}`}>
      <Link to={to}>{sentence}</Link>
      {runbook && (
        <a class="runbook" href={`/admin/assets/runbook-${runbook}.md`}>
          {runbook} runbook
        </a>
      )}
    </p>
  );
}
