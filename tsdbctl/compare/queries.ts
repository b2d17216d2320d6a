/** Queries that are worth to compare, made of what a database has. */

/** A query about a metric, one of its tags, and minutes of it. */
type Template = (name: string, tag: string, minutes: number) => string;

const templates: readonly Template[] = [
  (name) => name,
  (name) => `sum(${name})`,
  (name, tag) => `avg by (${tag}) (${name})`,
  (name) => `count(${name})`,
  (name, _, minutes) => `max_over_time(${name}[${minutes}m])`,
  (name, tag, minutes) => `sum by (${tag}) (rate(${name}[${minutes}m]))`,
  (name, tag) => `quantile by (${tag}) (0.9, ${name})`,
  // Of equal values any one may be among them.
  (name, tag) => `sum by (${tag}) (topk by (${tag}) (3, ${name}))`,
  (name, tag) => `max by (${tag}) (${name}) - min by (${tag}) (${name})`,
  (name, _, minutes) => `avg_over_time(${name}[${minutes}m])`,
  (name, tag, minutes) => `max by (${tag}) (increase(${name}[${minutes}m]))`,
  (name, tag) => `stddev by (${tag}) (${name})`,
  (name, _, minutes) => `count_over_time(${name}[${minutes}m])`,
  (name, _, minutes) => `${name} offset ${minutes}m`,
  (name, tag) => `count by (${tag}) (${name} > 0)`,
];

/** One round of all templates has one of them. */
const minutesOfRounds: readonly number[] = [5, 10, 20, 60, 2, 30];

const namePattern = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;

/**
 * Each metric once before it is asked for again, with another template.
 * @param names of metrics
 * @param tags of all of them
 * @returns takes whether the query had a value: metrics of the past have none, and are not asked for again
 */
export function* queriesOf(
  names: readonly string[],
  tags: readonly string[],
): Generator<string, void, boolean> {
  let plain = names.filter((name) => namePattern.test(name));
  const others = tags.filter((tag) => tag !== '__name__' && namePattern.test(tag));
  const asked = new Set<string>();
  for (const [round, minutes] of minutesOfRounds.entries()) {
    for (const at of templates.keys()) {
      const empty = new Set<string>();
      for (const [i, name] of plain.entries()) {
        const template = templates[(at + i) % templates.length]!;
        const tag = others[(at + i + round) % Math.max(others.length, 1)] ?? 'job';
        const query = template(name, tag, minutes);
        if (asked.has(query)) continue;
        asked.add(query);
        const hasValues = yield query;
        if (!hasValues) empty.add(name);
      }
      // A metric may have values and none over other minutes: that is seen in the first round alone.
      if (round === 0 && at === 0) plain = plain.filter((name) => !empty.has(name));
    }
  }
}

/**
 * Lines of a file: a query, or a name, a tab and a query, with numbers between them perhaps; those that begin with # are not.
 */
export function queriesOfText(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => {
    const query = line.replace(/^[^\t]*\t(?:\d+\t)*/, '').trim();
    return query === '' || line.startsWith('#') ? [] : [query];
  });
}
