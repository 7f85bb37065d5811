import { parser } from '@prometheus-io/lezer-promql';

/** Metrics of the service's own processes, which a scrape gives a namespace and a job. */
const OF_A_PROCESS = /^(activity_sync_|nodejs_|process_)/;
/** What rules make of them, which has only the namespace. */
const OF_A_RULE = /^activity_sync:/;

/**
 * Narrows a query to the service that the dashboard's variables `namespace` and `job` name, so that staging and
 * production in one cluster are not added up. Metrics of the stack stay as they are, and so do `up` and `ALERTS`, which
 * every job has.
 */
export function scoped(expr: string): string {
  const insertions: { at: number; text: string }[] = [];
  // Grafana's windows are no PromQL: a duration of the same length replaces each.
  const parsable = expr.replaceAll(/\$__\w+/g, (variable) => `${'1'.repeat(variable.length - 1)}s`);
  parser.parse(parsable).iterate({
    enter(node) {
      if (node.name !== 'VectorSelector') return;
      const name = node.node.getChild('Identifier');
      if (name === null) return;
      const matchers = matchersFor(expr.slice(name.from, name.to));
      if (matchers === undefined) return;
      const braces = node.node.getChild('LabelMatchers');
      insertions.push(
        braces === null ? { at: name.to, text: `{${matchers}}` } : { at: braces.from + 1, text: `${matchers},` },
      );
    },
  });
  return insertions.reduceRight((text, { at, text: added }) => text.slice(0, at) + added + text.slice(at), expr);
}

function matchersFor(metric: string): string | undefined {
  if (OF_A_PROCESS.test(metric)) return 'namespace=~"$namespace",job=~"$job"';
  if (OF_A_RULE.test(metric)) return 'namespace=~"$namespace"';
  return undefined;
}
