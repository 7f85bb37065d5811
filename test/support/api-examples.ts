/** A call that the page of the interface shows. */
export interface ApiExample {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** As in the OpenAPI document. */
  template: string;
  /** With ids and query; the template by default. */
  path?: string;
  body?: object;
  /** Without the admin token. */
  public?: true;
  note?: string;
  headers?: Record<string, string>;
}

/** The ids of what the script has created. */
export interface ExampleWorld {
  athleteId: string;
  /** Connected, and erased by the last call. */
  leaverId: string;
  /** Connected, and erased by the application. */
  secondLeaverId: string;
  /** Of an application that accepts everything. */
  endpointUrl: string;
  activityId: string;
  jobId: string;
  eventId: string;
  syncId: string;
  verifyToken: string;
  adminToken: string;
  state: string;
  code: string;
  /** Of the browser that began to connect. */
  connectCookie: string;
}

/** The calls in the order of the page, by heading. Each endpoint of the OpenAPI document appears at least once. */
export function apiExamples(world: ExampleWorld): Record<string, ApiExample[]> {
  const { athleteId, activityId, jobId, eventId, syncId } = world;
  const jobs = '/api/admin/activity-jobs';
  const event = {
    object_type: 'activity',
    object_id: activityId,
    aspect_type: 'update',
    owner_id: athleteId,
    subscription_id: 120475,
    event_time: Math.floor(Date.now() / 1000) + 1,
    updates: { title: 'Evening Run' },
  };
  const handshake = new URLSearchParams({
    'hub.mode': 'subscribe',
    'hub.challenge': '15f7d1a91c1f40f8',
    'hub.verify_token': world.verifyToken,
  });
  const callback = new URLSearchParams({ state: world.state, code: world.code, scope: 'read,activity:read_all' });
  return {
    'The provider’s side': [
      { method: 'GET', template: '/api/provider/webhook', path: `/api/provider/webhook?${handshake}`, public: true },
      { method: 'POST', template: '/api/provider/webhook', body: event, public: true },
      {
        method: 'POST',
        template: '/api/provider/webhook',
        body: event,
        public: true,
        note: 'The same event again:',
      },
      { method: 'GET', template: '/api/provider/connect', public: true },
      {
        method: 'GET',
        template: '/api/provider/callback',
        path: `/api/provider/callback?${callback}`,
        headers: { cookie: world.connectCookie },
        public: true,
      },
    ],
    Deliveries: [
      { method: 'GET', template: '/api/admin/webhook-events', path: '/api/admin/webhook-events?limit=1' },
      {
        method: 'GET',
        template: '/api/admin/webhook-events/count',
        path: `/api/admin/webhook-events/count?athleteId=${athleteId}`,
      },
      { method: 'POST', template: '/api/admin/webhook-events/replay', body: { result: 'stale' } },
      { method: 'GET', template: '/api/admin/webhook-events/{id}', path: `/api/admin/webhook-events/${eventId}` },
      {
        method: 'POST',
        template: '/api/admin/webhook-events/{id}/replay',
        path: `/api/admin/webhook-events/${eventId}/replay`,
      },
    ],
    Jobs: [
      { method: 'GET', template: jobs, path: `${jobs}?status=done&limit=1` },
      { method: 'GET', template: `${jobs}/count`, path: `${jobs}/count?status=done` },
      { method: 'GET', template: `${jobs}/errors`, path: `${jobs}/errors?reason=manual` },
      { method: 'GET', template: `${jobs}/{id}`, path: `${jobs}/${jobId}` },
      { method: 'POST', template: jobs, body: { activityId, athleteId, reason: 'manual', force: true } },
      { method: 'POST', template: `${jobs}/{id}/retry`, path: `${jobs}/${jobId}/retry` },
      { method: 'POST', template: `${jobs}/retry`, path: `${jobs}/retry?status=failed` },
      { method: 'POST', template: `${jobs}/force`, path: `${jobs}/force?status=done&athleteId=${athleteId}` },
      {
        method: 'POST',
        template: '/api/admin/job-changes',
        body: { action: 'retry', status: 'failed', error: 'HTTP 503' },
      },
      { method: 'GET', template: '/api/admin/job-changes' },
      {
        method: 'POST',
        template: '/api/admin/job-changes/{id}/cancel',
        path: '/api/admin/job-changes/1/cancel',
        note: 'One that has ended already:',
      },
      { method: 'DELETE', template: jobs, path: `${jobs}?status=done&olderThan=48` },
      { method: 'DELETE', template: jobs, note: 'A request that is not complete:' },
      { method: 'DELETE', template: `${jobs}/{id}`, path: `${jobs}/${jobId}` },
    ],
    Search: [
      { method: 'GET', template: '/api/admin/search', path: '/api/admin/search?q=ada' },
      { method: 'GET', template: '/api/admin/athlete-names', path: `/api/admin/athlete-names?ids=${athleteId}` },
    ],
    Subscriptions: [
      { method: 'POST', template: '/api/admin/webhooks' },
      { method: 'GET', template: '/api/admin/webhooks' },
      { method: 'GET', template: '/api/admin/webhooks/doctor' },
      { method: 'DELETE', template: '/api/admin/webhooks' },
      {
        method: 'DELETE',
        template: '/api/admin/webhooks',
        path: '/api/admin/webhooks?id=1',
        note: 'One by its id, which the provider does not know:',
      },
    ],
    Athletes: [
      { method: 'GET', template: '/api/admin/athletes', path: '/api/admin/athletes?state=healthy&limit=1' },
      { method: 'GET', template: '/api/admin/athletes/{id}', path: `/api/admin/athletes/${athleteId}` },
      { method: 'DELETE', template: '/api/admin/athletes/{id}', path: `/api/admin/athletes/${world.leaverId}` },
    ],
    'Bulk sync': [
      {
        method: 'POST',
        template: '/api/admin/athletes/{id}/sync',
        path: `/api/admin/athletes/${athleteId}/sync`,
        body: { after: '2025-01-01T00:00:00Z', force: false },
      },
      { method: 'GET', template: '/api/admin/sync/forecast', path: '/api/admin/sync/forecast?force=true' },
      { method: 'POST', template: '/api/admin/sync', body: {} },
      { method: 'GET', template: '/api/admin/syncs', path: '/api/admin/syncs?limit=1' },
      { method: 'GET', template: '/api/admin/syncs/{id}', path: `/api/admin/syncs/${syncId}` },
      { method: 'POST', template: '/api/admin/syncs/{id}/cancel', path: `/api/admin/syncs/${syncId}/cancel` },
    ],
    Activities: [
      {
        method: 'GET',
        template: '/api/admin/activities',
        path: `/api/admin/activities?athleteId=${athleteId}&limit=1`,
      },
      { method: 'GET', template: '/api/admin/activities/{id}', path: `/api/admin/activities/${activityId}` },
      {
        method: 'GET',
        template: '/api/admin/activities/{id}/thumbnail',
        path: `/api/admin/activities/${activityId}/thumbnail`,
      },
    ],
    'Tokens of applications': [
      { method: 'POST', template: '/api/admin/api-tokens', body: { name: 'my app', scope: 'write' } },
      { method: 'GET', template: '/api/admin/api-tokens' },
      { method: 'DELETE', template: '/api/admin/api-tokens/{id}', path: '/api/admin/api-tokens/1' },
    ],
    'The application: changes': [
      { method: 'GET', template: '/api/v1/changes', path: '/api/v1/changes?limit=2' },
      {
        method: 'GET',
        template: '/api/v1/changes',
        path: '/api/v1/changes?after=latest',
        note: 'Where the feed ends now:',
      },
    ],
    'The application: its copy': [
      { method: 'GET', template: '/api/v1/activities', path: `/api/v1/activities?athleteId=${athleteId}&limit=1` },
      { method: 'GET', template: '/api/v1/activities/{id}', path: `/api/v1/activities/${activityId}` },
      { method: 'GET', template: '/api/v1/activities/{id}/raw', path: `/api/v1/activities/${activityId}/raw` },
      {
        method: 'GET',
        template: '/api/v1/activities/{id}/thumbnail',
        path: `/api/v1/activities/${activityId}/thumbnail`,
      },
      { method: 'GET', template: '/api/v1/athletes', path: '/api/v1/athletes?limit=1' },
      { method: 'GET', template: '/api/v1/athletes/{id}', path: `/api/v1/athletes/${athleteId}` },
      { method: 'DELETE', template: '/api/v1/athletes/{id}', path: `/api/v1/athletes/${world.secondLeaverId}` },
      {
        method: 'POST',
        template: '/api/v1/connect-links',
        body: { externalId: 'user-17', returnUrl: 'https://app.example.com/connected' },
      },
    ],
    'The application: its endpoints': [
      { method: 'POST', template: '/api/v1/endpoints', body: { url: world.endpointUrl, types: ['activity.created'] } },
      {
        method: 'POST',
        template: '/api/v1/endpoints',
        body: { url: 'https://user:password@example.com/' },
        note: 'An address that nothing is sent to:',
      },
      { method: 'GET', template: '/api/v1/endpoints' },
      { method: 'GET', template: '/api/v1/endpoints/{id}', path: '/api/v1/endpoints/1' },
      {
        method: 'PATCH',
        template: '/api/v1/endpoints/{id}',
        path: '/api/v1/endpoints/1',
        body: { description: 'production' },
      },
      { method: 'POST', template: '/api/v1/endpoints/{id}/rotate', path: '/api/v1/endpoints/1/rotate' },
      { method: 'POST', template: '/api/v1/endpoints/{id}/test', path: '/api/v1/endpoints/1/test' },
      {
        method: 'POST',
        template: '/api/v1/endpoints/{id}/replay',
        path: '/api/v1/endpoints/1/replay',
        body: { since: '2025-01-01T00:00:00Z' },
      },
      { method: 'GET', template: '/api/v1/endpoints/{id}/attempts', path: '/api/v1/endpoints/1/attempts?limit=1' },
      {
        method: 'POST',
        template: '/api/v1/endpoints/{id}/attempts/{attemptId}/resend',
        path: '/api/v1/endpoints/1/attempts/1/resend',
      },
      { method: 'GET', template: '/api/admin/endpoints', note: 'As an operator watches them:' },
      { method: 'GET', template: '/api/admin/endpoints/{id}', path: '/api/admin/endpoints/1' },
      {
        method: 'GET',
        template: '/api/admin/activities/{id}/changes',
        path: `/api/admin/activities/${activityId}/changes`,
      },
      { method: 'DELETE', template: '/api/v1/endpoints/{id}', path: '/api/v1/endpoints/1' },
    ],
    Status: [
      { method: 'GET', template: '/api/admin/budget' },
      { method: 'GET', template: '/api/admin/overview' },
      { method: 'GET', template: '/api/admin/history' },
      { method: 'GET', template: '/api/admin/processes' },
      {
        method: 'POST',
        template: '/api/admin/fetching/pause',
        body: { reason: 'polling', by: 'Ada', note: 'the provider has an incident' },
      },
      { method: 'POST', template: '/api/admin/fetching/resume', body: { reason: 'polling' } },
      { method: 'GET', template: '/api/admin/events' },
      { method: 'GET', template: '/api/admin/audit', path: '/api/admin/audit?limit=2' },
      { method: 'GET', template: '/healthz', public: true },
      { method: 'GET', template: '/readyz', public: true },
      { method: 'GET', template: '/metrics', public: true },
      { method: 'GET', template: '/api/openapi.json', public: true },
    ],
    'Sessions of a browser': [
      { method: 'POST', template: '/api/admin/session', body: { token: world.adminToken }, public: true },
      { method: 'GET', template: '/api/admin/session' },
      { method: 'DELETE', template: '/api/admin/session' },
      { method: 'GET', template: '/api/admin/session', public: true, note: 'Without a token:' },
    ],
  };
}
