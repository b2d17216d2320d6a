/** Queries that are worth to compare, made of what a database has. */

/** A query about a metric, and one of its tags. */
type Template = (name: string, tag: string) => string;

const templates: readonly Template[] = [
  (name) => name,
  (name) => `sum(${name})`,
  (name, tag) => `avg by (${tag}) (${name})`,
  (name) => `count(${name})`,
  (name) => `max_over_time(${name}[10m])`,
  (name, tag) => `sum by (${tag}) (rate(${name}[5m]))`,
  (name) => `quantile(0.9, ${name})`,
  // Of equal values any one may be among them.
  (name) => `sum(topk(3, ${name}))`,
  (name, tag) => `max by (${tag}) (${name}) - min by (${tag}) (${name})`,
  (name) => `avg_over_time(${name}[15m])`,
  (name) => `increase(${name}[10m])`,
  (name) => `stddev(${name})`,
  (name) => `count_over_time(${name}[10m])`,
  (name) => `${name} offset 30m`,
  (name, tag) => `count by (${tag}) (${name} > 0)`,
];

const namePattern = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;

/**
 * Each of the first templates with all metrics before the next one.
 * @param names of metrics
 * @param tags of all of them
 */
export function queriesOf(
  names: readonly string[],
  tags: readonly string[],
  count: number,
): readonly string[] {
  const plain = names.filter((name) => namePattern.test(name));
  const others = tags.filter((tag) => tag !== '__name__' && namePattern.test(tag));
  const queries: string[] = [];
  for (const [at, template] of templates.entries()) {
    for (const [i, name] of plain.entries()) {
      if (queries.length === count) return queries;
      queries.push(template(name, others[(at + i) % Math.max(others.length, 1)] ?? 'job'));
    }
  }
  return queries;
}

/** Lines of a file: a query, or a name, a tab and a query; those that begin with # are not. */
export function queriesOfText(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => {
    const query = line.slice(line.lastIndexOf('\t') + 1).trim();
    return query === '' || line.startsWith('#') ? [] : [query];
  });
}
