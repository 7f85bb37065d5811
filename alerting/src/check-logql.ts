import { parser } from '@grafana/lezer-logql';
import type { SyntaxNode, Tree } from '@lezer/common';

/**
 * Problems of a LogQL expression; empty when the log store would accept it.
 * @param kind the required kind: rules must be `metric` queries, log panels `log` queries
 */
export function findLogqlProblems(expr: string, kind: 'metric' | 'log'): string[] {
  const tree = parser.parse(expr);
  const problems: string[] = [];
  tree.iterate({
    enter({ type, from, node }) {
      if (type.isError) problems.push(`does not parse at character ${from}: ${expr.slice(from, from + 40)}`);
      if (type.name === 'Selector' && !narrowsSomething(expr, node))
        problems.push(`selects every stream: ${text(expr, node)}`);
      if (type.name === 'Filter' && (text(expr, node) === '|~' || text(expr, node) === '!~')) {
        const pattern = node.parent?.getChild('String');
        if (pattern) problems.push(...regexpProblems(unquote(text(expr, pattern))));
      }
    },
  });
  const top = tree.topNode.getChild('Expr')?.firstChild?.name;
  if (problems.length === 0 && top !== (kind === 'metric' ? 'MetricExpr' : 'LogExpr'))
    problems.push(`is not a ${kind} query`);
  return problems;
}

/** The line filters of a LogQL expression, one list for each stream selector, in their order. */
export function lineFilters(expr: string): { operator: string; value: string }[][] {
  const pipelines: { operator: string; value: string }[][] = [];
  const tree: Tree = parser.parse(expr);
  tree.iterate({
    enter({ type, node }) {
      if (type.name === 'Selector') pipelines.push([]);
      if (type.name !== 'LineFilter') return;
      const filter = node.getChild('Filter');
      const value = node.getChild('String');
      if (filter && value) pipelines.at(-1)?.push({ operator: text(expr, filter), value: unquote(text(expr, value)) });
    },
  });
  return pipelines;
}

/** Whether the line filters of some pipeline of the expression let a line through. */
export function matchesLine(expr: string, line: string): boolean {
  return lineFilters(expr).some((filters) =>
    filters.every(({ operator, value }) => {
      if (operator === '|=') return line.includes(value);
      if (operator === '!=') return !line.includes(value);
      return new RegExp(value).test(line) === (operator === '|~');
    }),
  );
}

function narrowsSomething(expr: string, selector: SyntaxNode): boolean {
  let narrows = false;
  selector.cursor().iterate((child) => {
    if (child.name !== 'Matcher') return;
    const [, operator, quoted] = /^[A-Za-z_]\w*\s*(=~|!~|!=|=)\s*(.*)$/s.exec(expr.slice(child.from, child.to)) ?? [];
    const value = unquote(quoted ?? '');
    if (operator === '=' && value !== '') narrows = true;
    if (operator === '=~' && value !== '' && !new RegExp(`^(?:${value})$`).test('')) narrows = true;
  });
  return narrows;
}

// Loki's regular expressions are RE2: no look-around and no back references.
function regexpProblems(pattern: string): string[] {
  if (/\(\?(?:[=!]|<[=!])|\\[1-9]/.test(pattern)) return [`is not an RE2 expression: ${pattern}`];
  try {
    new RegExp(pattern);
    return [];
  } catch (error) {
    return [`has a bad regular expression: ${(error as Error).message}`];
  }
}

function unquote(quoted: string): string {
  return quoted.startsWith('`') ? quoted.slice(1, -1) : (JSON.parse(quoted) as string);
}

function text(expr: string, node: SyntaxNode): string {
  return expr.slice(node.from, node.to);
}
