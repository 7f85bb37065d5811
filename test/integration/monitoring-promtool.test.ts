import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { findProgram } from '../../alerting/src/find-program.ts';
import { alertsOf, readRuleFiles } from '../../alerting/src/rule-files.ts';

const folder = join(import.meta.dirname, '../../alerting');
const ruleFiles = readRuleFiles().filter((file) => file.language === 'promql');
const promtool = findProgram('promtool', 'prometheus', 'the metric rules by promtool, and their unit tests');

const testFiles = readdirSync(join(folder, 'tests')).filter((file) => file.endsWith('.test.yaml'));

interface RuleTest {
  tests: { promql_expr_test?: { expr: string; exp_samples: { labels?: string; value: number }[] }[] }[];
}

describe('promtool', () => {
  it('accepts every metric rule', () => {
    if (!promtool) return;
    const output = execFileSync(promtool, [
      'check',
      'rules',
      ...ruleFiles.map(({ name }) => join(folder, 'rules', `${name}.yaml`)),
    ]);
    expect(output.toString()).not.toMatch(/FAILED|duplicate/);
  });

  it.each(testFiles)('sees alerts fire and not fire: %s', (file) => {
    if (!promtool) return;
    const output = execFileSync(promtool, ['test', 'rules', join(folder, 'tests', file)]);
    expect(output.toString()).toContain('SUCCESS');
  });
});

describe('the unit tests of the metric rules', () => {
  const tests = testFiles.map((file) => parse(readFileSync(join(folder, 'tests', file), 'utf8')) as RuleTest);
  const expectations = tests.flatMap((file) => file.tests.flatMap((test) => test.promql_expr_test ?? []));
  const fires = expectations.flatMap(({ expr, exp_samples }) => [
    ...exp_samples.map((sample) => sample.labels ?? ''),
    ...(exp_samples.some(({ value }) => value === 1) ? [expr] : []),
  ]);

  it.each(alertsOf(ruleFiles))('show $alert firing', ({ alert }) => {
    expect(fires.some((labels) => labels.includes(`alertname="${alert}"`))).toBe(true);
  });

  it.each(ruleFiles)('show no alert of $name firing on a healthy day', ({ name }) => {
    const { tests: cases } = parse(readFileSync(join(folder, 'tests', `${name}.test.yaml`), 'utf8')) as RuleTest;
    const healthy = cases
      .flatMap((test) => test.promql_expr_test ?? [])
      .filter(({ expr }) => expr === 'count(ALERTS) or vector(0)');
    expect(healthy.map(({ exp_samples }) => exp_samples)).toEqual([[{ value: 0 }]]);
  });
});
