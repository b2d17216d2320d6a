/** Whether two answers to the same query say the same; else what is different. */
import assert from 'node:assert/strict';

export interface ApiAnswer {
  readonly status: 'success' | 'error';
  readonly data?: { readonly resultType: string; readonly result: unknown };
  readonly errorType?: string;
  readonly error?: string;
  readonly warnings?: readonly string[];
  readonly infos?: readonly string[];
}

interface HistogramJson {
  readonly count: string;
  readonly sum: string;
  readonly buckets?: readonly (readonly [number, string, string, string])[];
}

interface SeriesJson {
  readonly metric: Record<string, string>;
  readonly value?: readonly [number, string];
  readonly values?: readonly (readonly [number, string])[];
  readonly histogram?: readonly [number, HistogramJson];
  readonly histograms?: readonly (readonly [number, HistogramJson])[];
}

/** Sums are added up in another order. */
const tolerance = 1e-9;

/** @returns null when they are the same; else the kind of the difference, and the two */
export function differenceOf(
  theirs: ApiAnswer,
  ours: ApiAnswer,
  order: 'values' | 'labels' | null,
): { kind: string; detail: string } | null {
  if (theirs.status !== ours.status) {
    return differs('success', theirs.error ?? 'success', ours.error ?? 'success');
  }
  if (theirs.status === 'error') {
    if (theirs.errorType !== ours.errorType) {
      return differs(
        'errorType',
        `${theirs.errorType} ${theirs.error}`,
        `${ours.errorType} ${ours.error}`,
      );
    }
    const [a, b] = [withoutExamples(theirs.error!), withoutExamples(ours.error!)];
    return a === b ? null : differs('error', a, b);
  }
  const [their, our] = [theirs.data!, ours.data!];
  if (their.resultType !== our.resultType) {
    return differs('resultType', their.resultType, our.resultType);
  }
  const values =
    their.resultType === 'scalar' || their.resultType === 'string'
      ? pointsDiffer([their.result as [number, string]], [our.result as [number, string]])
      : seriesDiffer(their.result as SeriesJson[], our.result as SeriesJson[], order);
  if (values !== null) return values;
  return annotationsDiffer(theirs, ours);
}

/** Which of several series an error names depends on their order, which is nobody's business. */
function withoutExamples(error: string): string {
  return error
    .replace('invalid parameter "query": ', '')
    .replace(/(duplicate series for the match group) .*(;many-to-many)/s, '$1 …$2');
}

/** Of more than ten which ones are told is left to chance. */
const omitted = /more (?:warning|info) annotations omitted/;

/**
 * What only theirs tell are those of parts that cannot have a say, which are not evaluated here; what only ours tell those of
 * which several at one step are one there.
 */
function annotationsDiffer(theirs: ApiAnswer, ours: ApiAnswer): Difference {
  for (const kind of ['warnings', 'infos'] as const) {
    const [a, b] = [theirs[kind] ?? [], ours[kind] ?? []];
    if (a.some((text) => omitted.test(text)) && b.some((text) => omitted.test(text))) continue;
    const [missing, more] = [
      a.filter((text) => !b.includes(text)),
      b.filter((text) => !a.includes(text)),
    ];
    if (missing.length === 0 && more.length === 0) continue;
    const only = missing.length === 0 ? ' only ours' : more.length === 0 ? ' only theirs' : '';
    return differs(`${kind}${only}`, missing, more);
  }
  return null;
}

type Difference = { kind: string; detail: string } | null;

function differs(kind: string, theirs: unknown, ours: unknown): { kind: string; detail: string } {
  return { kind, detail: `theirs ${JSON.stringify(theirs)}\n  ours   ${JSON.stringify(ours)}` };
}

function keyOf(metric: Record<string, string>): string {
  return JSON.stringify(Object.entries(metric).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function seriesDiffer(
  theirs: SeriesJson[],
  ours: SeriesJson[],
  order: 'values' | 'labels' | null,
): Difference {
  const keys = (list: SeriesJson[]): string[] => list.map(({ metric }) => keyOf(metric));
  const [a, b] = [keys(theirs), keys(ours)];
  if (order === 'labels' && a.join('\n') !== b.join('\n')) return differs('order', a, b);
  if (order === 'values') {
    const [x, y] = [theirs, ours].map((list) => list.map(({ value }) => value?.[1] ?? ''));
    if (!x!.every((value, i) => isNear(value, y![i] ?? ''))) return differs('order', x, y);
  }
  const ofOurs = new Map(b.map((key, i) => [key, ours[i]!]));
  assert.equal(ofOurs.size, ours.length, 'no two of our series are the same');
  if (areNear(a, b)) return null;
  const missing = a.filter((key) => !ofOurs.has(key));
  const more = b.filter((key) => !a.includes(key));
  if (missing.length > 0 || more.length > 0) return differs('labels', missing, more);
  for (const [i, key] of a.entries()) {
    const [their, our] = [theirs[i]!, ofOurs.get(key)!];
    const difference =
      pointsDiffer(their.values ?? listed(their.value), our.values ?? listed(our.value)) ??
      histogramsDiffer(
        their.histograms ?? listed(their.histogram),
        our.histograms ?? listed(our.histogram),
      );
    if (difference !== null) return { ...difference, detail: `${key}\n  ${difference.detail}` };
  }
  return null;
}

/** Labels of `count_values` are numbers. */
function areNear(theirs: readonly string[], ours: readonly string[]): boolean {
  const number = /-?\d+(?:\.\d+)?(?:e[+-]\d+)?/g;
  if (theirs.length !== ours.length || theirs.join() === ours.join()) return false;
  const [a, b] = [[...theirs].sort(), [...ours].sort()];
  return a.every((key, i) => {
    if (key.replace(number, '') !== b[i]!.replace(number, '')) return false;
    const numbers = b[i]!.match(number) ?? [];
    return (key.match(number) ?? []).every((text, place) => isNear(text, numbers[place]!));
  });
}

function listed<Item>(item: Item | undefined): Item[] {
  return item === undefined ? [] : [item];
}

function pointsDiffer(
  theirs: readonly (readonly [number, string])[],
  ours: readonly (readonly [number, string])[],
): Difference {
  const place = theirs.findIndex(
    ([time, value], i) => ours[i]?.[0] !== time || !isNear(value, ours[i]![1]),
  );
  if (place < 0 && theirs.length === ours.length) return null;
  const at = place < 0 ? theirs.length : place;
  return differs(
    theirs.length === ours.length ? 'values' : 'times',
    [theirs.length, theirs[at]],
    [ours.length, ours[at]],
  );
}

function histogramsDiffer(
  theirs: readonly (readonly [number, HistogramJson])[],
  ours: readonly (readonly [number, HistogramJson])[],
): Difference {
  if (theirs.length !== ours.length) {
    return differs('histogram times', [theirs.length, theirs[0]], [ours.length, ours[0]]);
  }
  for (const [i, [time, their]] of theirs.entries()) {
    const [ourTime, our] = ours[i]!;
    const isSame =
      time === ourTime &&
      isNear(their.count, our.count) &&
      isNear(their.sum, our.sum) &&
      (their.buckets?.length ?? 0) === (our.buckets?.length ?? 0) &&
      (their.buckets ?? []).every((bucket, place) =>
        bucket.every((part, column) => isNear(String(part), String(our.buckets![place]![column]))),
      );
    if (!isSame) return differs('histograms', [time, their], [ourTime, our]);
  }
  return null;
}

function isNear(a: string, b: string): boolean {
  if (a === b) return true;
  const [x, y] = [Number(a.replace('Inf', 'Infinity')), Number(b.replace('Inf', 'Infinity'))];
  if (Object.is(x, y) || (x === 0 && y === 0)) return true;
  return Math.abs(x - y) <= tolerance * Math.max(Math.abs(x), Math.abs(y));
}
