import type { Int64 } from '../domain/int64.ts';
import { toStorableJson } from '../domain/storable-text.ts';
import { ProviderError } from './errors.ts';
import {
  type ActivityDetail,
  type ActivitySummary,
  activityDetailSchema,
  activitySummarySchema,
  athleteSchema,
  listOf,
  type SubscriptionAnswer,
  subscriptionSchema,
  type TokenAnswer,
  tokenSchema,
} from './schemas.ts';
import type { Transport } from './transport.ts';

/** The provider's API, as far as the service uses it. Every method throws ProviderError, without any secret in it. */
export interface Provider {
  /**
   * @returns the checked fields, and the whole answer as it came, except for what PostgreSQL cannot hold
   * @throws ProviderError UNUSABLE for an answer that a retry would not change: another activity, an impossible date
   */
  getActivity(
    accessToken: string,
    activityId: Int64,
    signal?: AbortSignal,
  ): Promise<{ detail: ActivityDetail; body: string }>;
  /** One page of an athlete's activities, newest first. Times in epoch seconds. */
  listActivities(
    accessToken: string,
    page: { before?: number; after?: number; page: number; perPage: number },
    signal?: AbortSignal,
  ): Promise<ActivitySummary[]>;
  /** Checks a token. */
  getAthlete(accessToken: string): Promise<{ id: Int64; name: string }>;
  /** The address where an athlete grants access. */
  authorizeUrl(options: { redirectUri: string; scope: string; state: string }): string;
  exchangeCode(code: string): Promise<TokenAnswer>;
  refreshToken(refreshToken: string): Promise<TokenAnswer>;
  deauthorize(accessToken: string): Promise<void>;
  createSubscription(subscription: { callbackUrl: string; verifyToken: string }): Promise<Int64>;
  listSubscriptions(): Promise<SubscriptionAnswer[]>;
  deleteSubscription(id: Int64): Promise<void>;
}

export const PER_PAGE = 200;

export function createProvider(
  transport: Transport,
  application: { origin: string; clientId: string; clientSecret: string },
): Provider {
  const credentials = { client_id: application.clientId, client_secret: application.clientSecret };
  const token = async (form: Record<string, string>) =>
    (
      await transport.send({
        endpoint: 'token',
        method: 'POST',
        path: '/oauth/token',
        form: { ...credentials, ...form },
        schema: tokenSchema,
      })
    ).value;

  return {
    getActivity: async (accessToken, activityId, signal) => {
      const path = `/api/v3/activities/${activityId}`;
      const { value, body } = await transport.send(
        { endpoint: 'activity', method: 'GET', path, accessToken, schema: activityDetailSchema },
        signal,
      );
      if (value.id !== activityId)
        throw new ProviderError('UNUSABLE', `GET ${path}: the provider answered with activity ${value.id}`);
      return { detail: value, body: toStorableJson(body) };
    },
    listActivities: async (accessToken, { before, after, page, perPage }, signal) =>
      (
        await transport.send(
          {
            endpoint: 'activities',
            method: 'GET',
            path: '/api/v3/athlete/activities',
            accessToken,
            query: { before, after, page, per_page: perPage },
            schema: listOf(activitySummarySchema),
          },
          signal,
        )
      ).value,
    getAthlete: async (accessToken) => {
      const { value } = await transport.send({
        endpoint: 'athlete',
        method: 'GET',
        path: '/api/v3/athlete',
        accessToken,
        schema: athleteSchema,
      });
      return { id: value.id, name: nameOf(value) };
    },
    authorizeUrl: ({ redirectUri, scope, state }) => {
      const query = new URLSearchParams({
        client_id: application.clientId,
        redirect_uri: redirectUri,
        response_type: 'code',
        approval_prompt: 'auto',
        scope,
        state,
      });
      return `${application.origin}/oauth/authorize?${query}`;
    },
    exchangeCode: (code) => token({ grant_type: 'authorization_code', code }),
    refreshToken: (refreshToken) => token({ grant_type: 'refresh_token', refresh_token: refreshToken }),
    deauthorize: async (accessToken) => {
      await transport.send({ endpoint: 'deauthorize', method: 'POST', path: '/oauth/deauthorize', accessToken });
    },
    createSubscription: async ({ callbackUrl, verifyToken }) => {
      const form = { ...credentials, callback_url: callbackUrl, verify_token: verifyToken };
      const path = '/api/v3/push_subscriptions';
      return (
        await transport.send({ endpoint: 'subscriptions', method: 'POST', path, form, schema: subscriptionSchema })
      ).value.id;
    },
    listSubscriptions: async () => {
      const path = '/api/v3/push_subscriptions';
      const schema = listOf(subscriptionSchema);
      return (await transport.send({ endpoint: 'subscriptions', method: 'GET', path, query: credentials, schema }))
        .value;
    },
    deleteSubscription: async (id) => {
      await transport.send({
        endpoint: 'subscriptions',
        method: 'DELETE',
        path: `/api/v3/push_subscriptions/${id}`,
        query: credentials,
      });
    },
  };
}

/** An athlete's name as the provider gives it; empty when it gives none. */
export function nameOf(athlete: { firstname?: string | undefined; lastname?: string | undefined }): string {
  return [athlete.firstname, athlete.lastname].filter(Boolean).join(' ');
}
