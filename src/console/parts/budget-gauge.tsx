import type { Budget, WaitCause } from '../api/bodies.ts';
import { now } from '../clock.ts';
import { formatClock, formatClocks, formatCount, formatCountdown } from '../format.ts';
import { Facts } from './page.tsx';

const CAUSES: readonly [WaitCause, string][] = [
  ['turn', 'for a worker'],
  ['cooldown', 'for an athlete’s cooldown'],
  ['budget', 'for the budget'],
  ['backoff', 'for their next retry'],
];

// The service's own rules (see the budget's functions): background work leaves a tenth of the window to
// webhooks, and is spread so that it has used its part after 95% of the window.
const BACKGROUND_SHARE = 0.9;
const PACED_OVER = 0.95;

/** The window of the budget: what is used, what is kept for webhooks, and what the pace allows by now. */
export function BudgetGauge({ budget }: { budget: Budget }) {
  const { capacity, used, backgroundUsed, window, daily, waiting } = budget;
  const start = Date.parse(window.start);
  const end = Date.parse(window.end);
  const background = Math.max(Math.floor(capacity * BACKGROUND_SHARE), Math.min(capacity, 1));
  const elapsed = Math.min(1, Math.max(0, (now.value - start) / (end - start)));
  const pace = Math.min(background, Math.ceil((background * elapsed) / PACED_OVER));
  const share = (calls: number) => `${capacity === 0 ? 0 : Math.min(100, (100 * calls) / capacity)}%`;
  const label = `${formatCount(used)} of ${formatCount(capacity)} calls of this window used, ${formatCount(backgroundUsed)} of them for background work; ${formatCount(capacity - background)} are kept for webhooks.`;
  const waits = CAUSES.filter(([cause]) => waiting[cause] > 0);
  return (
    <div class="budget">
      <div class="headline">
        <span class="big">
          {formatCount(budget.left)} <small>of {formatCount(capacity)} calls left</small>
        </span>
        <span class="countdown">
          <small>new window in</small> {formatCountdown(end - now.value)}
        </span>
      </div>
      <div class="gauge" role="img" aria-label={label}>
        <span class="foreground" style={{ width: share(used) }} />
        <span class="background" style={{ width: share(Math.min(used, backgroundUsed)) }} />
        <span class="reserve" style={{ left: share(background), width: share(capacity - background) }} />
        <span class="pace" style={{ left: share(pace) }} />
      </div>
      <p class="legend">
        <span>
          <i class="swatch accent" /> webhooks {formatCount(Math.max(0, used - backgroundUsed))}
        </span>
        <span>
          <i class="swatch blue" /> background {formatCount(backgroundUsed)} (pace allows {formatCount(pace)} by now)
        </span>
        <span>
          <i class="swatch reserve" /> kept for webhooks {formatCount(capacity - background)}
        </span>
      </p>
      <Facts
        of={[
          ['Window', formatClocks(window.start, window.end)],
          ['Today', `${formatCount(daily.used)}${daily.limit === null ? ' calls' : ` of ${formatCount(daily.limit)}`}`],
          budget.reducedCapacity !== null && [
            'Reduced',
            `to ${formatCount(budget.reducedCapacity)} of ${formatCount(budget.configuredCapacity)} after a refusal`,
          ],
          budget.blockedUntil !== null && [
            'Stopped until',
            `${formatClock(budget.blockedUntil)}${budget.blockedBy ? `: ${budget.blockedBy}` : ''}`,
          ],
          [
            'Jobs waiting',
            waits.length === 0
              ? 'none'
              : waits.map(([cause, words]) => `${formatCount(waiting[cause])} ${words}`).join(', '),
          ],
        ]}
      />
    </div>
  );
}
