import type { ComponentChild } from 'preact';
import { Frame } from './frame.tsx';
import { ConfirmDialog } from './parts/confirm.tsx';
import { Messages } from './parts/messages.tsx';
import { Page } from './parts/page.tsx';
import { SecretDialog } from './parts/secret.tsx';
import { Link, place } from './router.tsx';
import { access } from './session.ts';
import { ActivitiesView } from './views/activities.tsx';
import { ActivityView } from './views/activity.tsx';
import { ApplicationView } from './views/application.tsx';
import { AthleteView } from './views/athlete.tsx';
import { AthletesView } from './views/athletes.tsx';
import { AuditView } from './views/audit.tsx';
import { DeliveriesView } from './views/deliveries.tsx';
import { EndpointView } from './views/endpoint.tsx';
import { JobView } from './views/job.tsx';
import { JobsView } from './views/jobs.tsx';
import { OverviewView } from './views/overview.tsx';
import { ProcessesView } from './views/processes.tsx';
import { SignInView } from './views/sign-in.tsx';
import { SubscriptionsView } from './views/subscriptions.tsx';

const LISTS: Record<string, () => ComponentChild> = {
  '/': () => <OverviewView />,
  '/jobs': () => <JobsView />,
  '/athletes': () => <AthletesView />,
  '/activities': () => <ActivitiesView />,
  '/deliveries': () => <DeliveriesView />,
  '/subscriptions': () => <SubscriptionsView />,
  '/application': () => <ApplicationView />,
  '/processes': () => <ProcessesView />,
  '/audit': () => <AuditView />,
};
const SINGLES: Record<string, (id: string) => ComponentChild> = {
  jobs: (id) => <JobView key={id} id={id} />,
  athletes: (id) => <AthleteView key={id} id={id} />,
  activities: (id) => <ActivityView key={id} id={id} />,
  endpoints: (id) => <EndpointView key={id} id={id} />,
};

/** The console: sign-in, or the view that the address names. */
export function App() {
  if (access.value === 'unknown') return <p class="empty">Connecting to the service…</p>;
  return (
    <>
      {access.value === 'none' ? <SignInView /> : <Frame>{viewOf(place.value.path)}</Frame>}
      <ConfirmDialog />
      <SecretDialog />
      <Messages />
    </>
  );
}

function viewOf(path: string): ComponentChild {
  const [, kind = '', id = ''] = /^\/([a-z]+)\/([0-9]{1,19})$/.exec(path) ?? [];
  return (
    LISTS[path]?.() ??
    SINGLES[kind]?.(id) ?? (
      <Page title="Not found">
        <p>
          This view does not exist. Go to the <Link to="/">overview</Link>.
        </p>
      </Page>
    )
  );
}
