/** Two answers to one range query, value by value. */

type Pair = readonly [seconds: number, value: string];

export interface RangeSeries {
  readonly metric: Readonly<Record<string, string>>;
  readonly values?: readonly Pair[];
  readonly histograms?: readonly (readonly [seconds: number, histogram: object])[];
}

/** Of `query_range`. */
export interface RangeAnswer {
  readonly data: { readonly result: readonly RangeSeries[] };
  readonly warnings?: readonly string[];
}

export interface Difference {
  /** Values that both have, equal or nearly. */
  readonly equal: number;
  /** Values that both have and that differ. */
  readonly different: number;
  /** Series and values that one of them alone has. */
  readonly onlyInA: number;
  readonly onlyInB: number;
  /** The first one, for people; '' for none. */
  readonly first: string;
}

/** Sums in another order differ in their last digits. */
const relativeMax = 1e-9;

export function compareAnswers(a: readonly RangeSeries[], b: readonly RangeSeries[]): Difference {
  const others = new Map(b.map((series) => [keyOf(series), series]));
  let [equal, different, onlyInA, onlyInB] = [0, 0, 0, 0];
  let first = '';
  const note = (text: () => string): void => {
    if (first === '') first = text();
  };
  for (const series of a) {
    const key = keyOf(series);
    const other = others.get(key);
    others.delete(key);
    if (other === undefined) {
      onlyInA += rowCount(series);
      note(() => `${key} is in the first alone`);
      continue;
    }
    const left = rowsOf(other);
    for (const [seconds, value] of rowsOf(series)) {
      const there = left.get(seconds);
      left.delete(seconds);
      if (there === undefined) {
        onlyInA += 1;
        note(() => `${key} at ${seconds}: ${value} in the first alone`);
      } else if (isEqual(value, there)) equal += 1;
      else {
        different += 1;
        note(() => `${key} at ${seconds}: ${value} and ${there}`);
      }
    }
    onlyInB += left.size;
    for (const [seconds, value] of left) {
      note(() => `${key} at ${seconds}: ${value} in the second alone`);
    }
  }
  for (const [key, series] of others) {
    onlyInB += rowCount(series);
    note(() => `${key} is in the second alone`);
  }
  return { equal, different, onlyInA, onlyInB, first };
}

/** What M3 and this one say of what they left out, and of their warnings. */
const limitedHeaders = ['m3-results-limited', 'tsdb-results-limited'];
/** JSON, which is there whenever a limit was asked for. */
const returnedHeaders = ['m3-returned-data-limited', 'tsdb-returned-data-limited'];

/** What an engine finds strange about a query, or its values: nothing is left out for that. */
const noteOfEngine =
  /^(?:PromQL (?:warning|info): |\d+ more (?:warning|info) annotations omitted$)/;

/** Why an answer is a part of what there is; '' when it is whole. */
export function partialReasonOf(
  { warnings = [] }: Pick<RangeAnswer, 'warnings'>,
  headers: Pick<Headers, 'get'> | undefined,
): string {
  const header = (name: string): string => headers?.get(name) ?? '';
  const said = [...warnings, ...limitedHeaders.flatMap((name) => header(name).split(','))];
  const reason = said.find((text) => text.trim() !== '' && !noteOfEngine.test(text.trim()));
  if (reason !== undefined) return reason.trim();
  const isCut = returnedHeaders.some((name) => /"Limited":\s*true/.test(header(name)));
  return isCut ? 'fewer series or values are returned than there are' : '';
}

export function isSame({ different, onlyInA, onlyInB }: Difference): boolean {
  return different + onlyInA + onlyInB === 0;
}

function rowsOf({ values = [], histograms = [] }: RangeSeries): Map<number, string> {
  return new Map([
    ...values,
    ...histograms.map(([seconds, histogram]) => [seconds, JSON.stringify(histogram)] as const),
  ]);
}

const rowCount = ({ values = [], histograms = [] }: RangeSeries): number =>
  values.length + histograms.length;

function keyOf({ metric: { __name__: name = '', ...tags } }: RangeSeries): string {
  const pairs = Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${name}{${pairs.map(([tag, value]) => `${tag}=${JSON.stringify(value)}`).join(',')}}`;
}

function isEqual(a: string, b: string): boolean {
  if (a === b) return true;
  const [left, right] = [Number(a), Number(b)];
  return Math.abs(left - right) <= relativeMax * Math.max(Math.abs(left), Math.abs(right));
}
