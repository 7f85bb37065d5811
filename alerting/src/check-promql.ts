import type { SyntaxNode } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';

/** A selector of a PromQL expression: the metric and the labels that it matches or groups by. */
export interface MetricSelector {
  metric: string;
  labels: string[];
}

/** Problems of a PromQL expression as Prometheus' own grammar sees it; empty when it parses. */
export function findPromqlProblems(expr: string): string[] {
  const problems: string[] = [];
  parser.parse(expr).iterate({
    enter(node) {
      if (node.type.isError)
        problems.push(`does not parse at character ${node.from}: ${expr.slice(node.from, node.from + 40)}`);
    },
  });
  return problems;
}

/** Every selector of a PromQL expression. */
export function metricSelectors(expr: string): MetricSelector[] {
  const selectors: MetricSelector[] = [];
  parser.parse(expr).iterate({
    enter(node) {
      if (node.name !== 'VectorSelector') return;
      const metric = textOf(expr, node.node.getChild('Identifier'));
      selectors.push({ metric, labels: labelNamesUnder(expr, node.node) });
    },
  });
  return selectors;
}

function labelNamesUnder(expr: string, node: SyntaxNode): string[] {
  const names: string[] = [];
  node.cursor().iterate((child) => {
    if (child.name === 'LabelName') names.push(expr.slice(child.from, child.to));
  });
  return names;
}

function textOf(expr: string, node: SyntaxNode | null): string {
  return node === null ? '' : expr.slice(node.from, node.to);
}
