import type { SyntaxNode } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';

/** A selector of a PromQL expression: the metric, the labels that it matches, and the values that it names. */
export interface MetricSelector {
  metric: string;
  labels: string[];
  /** Each value that a label is compared with; none for a pattern that is not a plain list of words. */
  values: { label: string; value: string }[];
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
      selectors.push({ metric, labels: labelNamesUnder(expr, node.node), values: valuesUnder(expr, node.node) });
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

const LIST_OF_WORDS = /^\w+(\|\w+)*$/;

function valuesUnder(expr: string, node: SyntaxNode): MetricSelector['values'] {
  const values: MetricSelector['values'] = [];
  node.cursor().iterate((child) => {
    if (child.name !== 'UnquotedLabelMatcher') return;
    const label = textOf(expr, child.node.getChild('LabelName'));
    const pattern = textOf(expr, child.node.getChild('StringLiteral')).slice(1, -1);
    if (LIST_OF_WORDS.test(pattern)) for (const value of pattern.split('|')) values.push({ label, value });
  });
  return values;
}

function textOf(expr: string, node: SyntaxNode | null): string {
  return node === null ? '' : expr.slice(node.from, node.to);
}
