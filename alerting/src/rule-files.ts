import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parse } from 'yaml';

export interface Rule {
  alert?: string;
  record?: string;
  expr: string;
  for?: string;
  keep_firing_for?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}

export interface RuleGroup {
  name: string;
  interval?: string;
  rules: Rule[];
}

/** One file of alerting/rules. Log rules are in LogQL, all others in PromQL. */
export interface RuleFile {
  name: string;
  language: 'promql' | 'logql';
  groups: RuleGroup[];
}

const RULES_FOLDER = join(import.meta.dirname, '../rules');
const LOG_RULES = 'logs';

/** Reads every rule file of alerting/rules, in the order of their names. */
export function readRuleFiles(): RuleFile[] {
  return readdirSync(RULES_FOLDER)
    .filter((file) => file.endsWith('.yaml'))
    .sort()
    .map((file) => {
      const name = basename(file, '.yaml');
      const { groups } = parse(readFileSync(join(RULES_FOLDER, file), 'utf8')) as { groups: RuleGroup[] };
      return { name, language: name === LOG_RULES ? 'logql' : 'promql', groups };
    });
}

/** All alerts of some rule files, each with the file that declares it. */
export function alertsOf(files: RuleFile[]): (Rule & { alert: string; file: RuleFile })[] {
  return files.flatMap((file) =>
    file.groups.flatMap((group) =>
      group.rules.flatMap((rule) => (rule.alert === undefined ? [] : [{ ...rule, alert: rule.alert, file }])),
    ),
  );
}
