import { allFeatures, noFeatures } from '#coordinator/promql/parse/features.ts';
import { SeededRandom } from '../seeded_random.ts';
import { type ApiAnswer, differenceOf } from './answers.ts';
import { QueryGrammar } from './grammar.ts';
import { Peers } from './peers.ts';
import { intervalMillis, makeSeries, rowsEach } from './series.ts';

export interface ComparisonOptions {
  readonly folder: string;
  readonly prometheus: string;
  readonly hasFeatures: boolean;
  readonly seriesSeed: number;
  /** Numbers of queries, both included: each is made by its own alone. */
  readonly first: number;
  readonly last: number;
}

export interface Comparison {
  compared: number;
  /** Of these, how many Prometheus refuses. */
  refused: number;
  /** Of these, how many have no series. */
  empty: number;
  same: number;
  /** By kind. */
  readonly differences: Map<string, string[]>;
}

export async function compare(options: ComparisonOptions): Promise<Comparison> {
  await using peers = await Peers.start(options.folder, options.prometheus, options.hasFeatures);
  const endMillis = Math.floor(Date.now() / 60_000) * 60_000;
  const startMillis = endMillis - rowsEach * intervalMillis;
  await peers.write(makeSeries(new SeededRandom(options.seriesSeed), startMillis));
  const found: Comparison = { compared: 0, refused: 0, empty: 0, same: 0, differences: new Map() };
  for (let number = options.first; number <= options.last; number++) {
    const parameters = questionOf(number, options.hasFeatures, startMillis, endMillis);
    const { theirs, ours } = await peers.ask(parameters);
    found.compared += 1;
    if (theirs.status === 'error') found.refused += 1;
    else if ((theirs.data!.result as unknown[]).length === 0) found.empty += 1;
    const order = 'time' in parameters ? orderOf(parameters['query']!) : null;
    const isPlaced = !/\[[^\]]*:/.test(parameters['query']!);
    const difference = differenceOf(
      isPlaced ? theirs : withoutPlaces(theirs),
      isPlaced ? ours : withoutPlaces(ours),
      order,
    );
    if (difference === null) found.same += 1;
    else {
      const { kind, detail } = difference;
      const { query, ...times } = parameters;
      const place = JSON.stringify(times);
      const examples = found.differences.get(kind) ?? [];
      examples.push(`${number} ${query}\n  ${place}\n  ${detail.slice(0, 1500)}`);
      found.differences.set(kind, examples);
    }
  }
  return found;
}

/** What a query is sorted by as a whole. */
function orderOf(query: string): 'values' | 'labels' | null {
  const name = /^sort(_by_label)?(?:_desc)?\(/.exec(query);
  if (name === null) return null;
  let depth = 0;
  for (let i = name[0].length - 1; i < query.length; i++) {
    if (query[i] === '(') depth += 1;
    else if (query[i] === ')') depth -= 1;
    if (depth === 0)
      return i < query.length - 1 ? null : name[1] === undefined ? 'values' : 'labels';
  }
  return null;
}

/** Prometheus places what functions over subqueries tell at the beginning of the query. */
function withoutPlaces(answer: ApiAnswer): ApiAnswer {
  const strip = (texts: readonly string[] = []): string[] => [
    ...new Set(texts.map((text) => text.replace(/ \(\d+:\d+\)$/, ''))),
  ];
  return { ...answer, warnings: strip(answer.warnings), infos: strip(answer.infos) };
}

const steps = [15, 30, 60, 7, 300];

function questionOf(
  number: number,
  hasFeatures: boolean,
  startMillis: number,
  endMillis: number,
): Record<string, string> {
  const random = new SeededRandom(number);
  const features = hasFeatures ? allFeatures : noFeatures;
  const query = new QueryGrammar(random, features).query();
  const timeOf = (): number => startMillis + random.below(endMillis - startMillis);
  const seconds = (millis: number): string => String(millis / 1000);
  if (random.below(2) === 0) return { query, time: seconds(timeOf()) };
  const [a, b] = [timeOf(), timeOf()].map((time) => Math.floor(time / 1000) * 1000);
  const [start, end] = [Math.min(a!, b!), Math.max(a!, b!)].map(seconds);
  return { query, start: start!, end: end!, step: String(random.pick(steps)) };
}

/**
 * Annotations of parts that cannot have a say: Prometheus evaluates them all the same. Others are listed in docs/PROMQL.md.
 */
export function isExplained(kind: string): boolean {
  return kind === 'infos only theirs' || kind === 'warnings only theirs';
}
