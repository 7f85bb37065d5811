import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';

const file = join(import.meta.dirname, '../../compose.yaml');
const { services, volumes } = parse(readFileSync(file, 'utf8'));

describe('compose.yaml', () => {
  it('runs the service and its PostgreSQL, each with a health check, the data in a volume', () => {
    expect(Object.keys(services)).toEqual(['activity-sync', 'postgres']);
    for (const { healthcheck, restart } of Object.values<{ healthcheck: object; restart: string }>(services))
      expect([Object.keys(healthcheck), restart]).toEqual([
        expect.arrayContaining(['test', 'interval']),
        'unless-stopped',
      ]);
    expect(services['activity-sync'].depends_on).toEqual({ postgres: { condition: 'service_healthy' } });
    const [volume] = services.postgres.volumes[0].split(':');
    expect(volumes).toHaveProperty(volume);
  });

  it('contains no password, and opens no port to other machines', () => {
    expect(services.postgres.environment.POSTGRES_PASSWORD).toMatch(/^\$\{POSTGRES_PASSWORD:\?/);
    expect(services.postgres.ports).toBeUndefined();
    for (const port of services['activity-sync'].ports) expect(port).toMatch(/^127\.0\.0\.1:/);
  });

  it('is accepted by Docker Compose, where that is installed', () => {
    if (spawnSync('docker', ['compose', 'version']).status !== 0) return;
    const checked = spawnSync('docker', ['compose', '--file', file, 'config', '--quiet', '--no-env-resolution'], {
      env: { ...process.env, POSTGRES_PASSWORD: 'of-the-test' },
    });
    expect([checked.status, String(checked.stderr)]).toEqual([0, '']);
  });
});
