/**
 * Which exposition format an `Accept` header asks for, as Prometheus finds it for `/federate`: clauses in the order of
 * their quality, each held against the formats that there are. How names are escaped is said by any clause that was
 * looked at before one fits, also by those that do not.
 */
import { type EscapingScheme, escapingSchemes } from './names.ts';

export interface Exposition {
  readonly format: 'text' | 'protobuf';
  readonly escaping: EscapingScheme;
  readonly contentType: string;
}

/** Clauses that are looked at; scrapers send five. */
const clausesMax = 50;

const contentTypes = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  protobuf:
    'application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited',
} as const;

interface Clause {
  readonly type: string;
  readonly subtype: string;
  readonly quality: number;
  readonly parameters: ReadonlyMap<string, string>;
}

/** @param accept '' when there is no header, which asks for text */
export function expositionOf(accept: string): Exposition {
  let escaping: EscapingScheme = 'underscores';
  for (const clause of clausesOf(accept)) {
    const asked = clause.parameters.get('escaping');
    escaping = escapingSchemes.find((scheme) => scheme === asked) ?? escaping;
    const format = formatOf(clause);
    if (format !== null) return exposition(format, escaping);
  }
  return exposition('text', escaping);
}

function exposition(format: Exposition['format'], escaping: EscapingScheme): Exposition {
  return { format, escaping, contentType: `${contentTypes[format]}; escaping=${escaping}` };
}

/** Wildcards fit nothing by themselves: formats have parameters that they do not name. */
function formatOf({ type, subtype, parameters }: Clause): Exposition['format'] | null {
  const fits = (wantedType: string, wantedSubtype: string): boolean =>
    (type === '*' || type === wantedType) && (subtype === '*' || subtype === wantedSubtype);
  if (
    fits('application', 'vnd.google.protobuf') &&
    parameters.get('proto') === 'io.prometheus.client.MetricFamily' &&
    parameters.get('encoding') === 'delimited'
  ) {
    return 'protobuf';
  }
  const isPlain = type === 'text' && subtype === 'plain';
  const version = parameters.get('version') || (isPlain ? '0.0.4' : '');
  return fits('text', 'plain') && version === '0.0.4' ? 'text' : null;
}

function clausesOf(accept: string): Clause[] {
  const clauses: Clause[] = [];
  for (const part of accept.split(',', clausesMax)) {
    const clause = clauseOf(part);
    if (clause === null) continue;
    // The order of "before" is no total one, so where a clause comes to stand is decided by who moves past whom.
    let place = clauses.length;
    while (place > 0 && isBefore(clause, clauses[place - 1]!)) place--;
    clauses.splice(place, 0, clause);
  }
  return clauses;
}

function isBefore(a: Clause, b: Clause): boolean {
  if (a.quality > b.quality) return true;
  if (a.type !== '*' && b.type === '*') return true;
  return a.subtype !== '*' && b.subtype === '*';
}

function clauseOf(text: string): Clause | null {
  const [media, ...rest] = text.split(';') as [string, ...string[]];
  const [type, subtype, more] = media.split('/').map((each) => each.trim());
  if (more !== undefined || (!subtype && type !== '*')) return null;
  let quality = 1;
  const parameters = new Map<string, string>();
  for (const parameter of rest) {
    const [name, value, another] = parameter.split('=').map((each) => each.trim());
    if (!value || another !== undefined) continue;
    if (name === 'q') quality = Math.fround(Number(value)) || 0;
    else parameters.set(name!, value);
  }
  return { type: type!, subtype: subtype || '*', quality, parameters };
}
