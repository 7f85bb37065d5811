import { expect, it } from '@jest/globals';
import { matchesLine } from '../../alerting/src/check-logql.ts';
import { alertsOf, readRuleFiles } from '../../alerting/src/rule-files.ts';
import { keepLog } from '../support/kept-log.ts';
import { startRig, testEnvironment } from '../support/service.ts';
import { freePort, startServiceProcess } from '../support/service-process.ts';

const logAlerts = alertsOf(readRuleFiles().filter(({ language }) => language === 'logql'));
/** The alerts that a line of the service sets off; alerts on other containers never see it. */
const alertsFor = (line: string) =>
  logAlerts
    .filter(({ expr }) => !expr.includes('container="postgres"') && matchesLine(expr, line))
    .map(({ alert }) => alert);

it('a service that loses its database and finds it again says so in lines that alerts know, and in its own end in none', async () => {
  const { logger, lines } = keepLog('info');
  const rig = await startRig({ proxied: true, logger });
  const untilLine = async (text: string) => {
    while (!lines.some((line) => line.includes(text))) await new Promise((resolve) => setTimeout(resolve, 10));
  };
  expect(lines.flatMap(alertsFor)).toEqual([]);
  rig.proxy.cut();
  await untilLine('LISTEN connection failed, retrying');
  for (const line of lines.filter((one) => one.includes('LISTEN connection')))
    expect([line, alertsFor(line)]).toEqual([line, ['LogDatabaseUnreachable']]);
  rig.proxy.restore();
  await untilLine('LISTEN connection re-established');
  lines.splice(0);
  await rig.close();
  expect(lines.flatMap(alertsFor)).toEqual([]);
  expect(lines.join()).toContain('service stopped');
});

it.each([
  [
    'its database has no address',
    { DATABASE_URL: 'postgres://a:b@activity-sync-db.invalid:5432/x' },
    'LogDatabaseUnreachable',
  ],
  ['a variable is wrong', { DATABASE_URL: 'no address' }, 'LogServiceStartRefused'],
])('a service that does not start says why in a line that an alert knows: %s', async (_, wrong, alert) => {
  const environment = testEnvironment('http://127.0.0.1:1', { PORT: String(await freePort()), ...wrong });
  const service = startServiceProcess(environment);
  await expect(service.ready()).rejects.toThrow('The service ended');
  await service.end('SIGTERM');
  expect(service.output().split('\n').flatMap(alertsFor)).toEqual([alert]);
});
