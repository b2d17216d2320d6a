/**
 * The value of an expression of Graphite's language: a list of series, each with one row a step. No
 * series is changed once it is made; functions make others that may share columns with them.
 */
import type { ConsolidationName } from './consolidation_name.ts';

/** What a graph is drawn with; it goes along with the series and changes no value. */
export interface GraphOptions {
  readonly alpha?: number;
  readonly color?: string;
  readonly dashed?: number;
  readonly drawAsInfinite?: true;
  readonly invisible?: true;
  readonly lineWidth?: number;
  readonly secondYAxis?: true;
  readonly stacked?: true;
}

/** Columns of one length: a value counts where `present` is 1; NaN and infinities are values. */
export interface Columns {
  readonly values: Float64Array<ArrayBuffer>;
  readonly present: Uint8Array<ArrayBuffer>;
}

export interface Series extends Columns {
  /** What a legend shows, and `target` of answers. */
  readonly name: string;
  /** What it was read by, or the name of the last function that made rows of its own. */
  readonly pathExpression: string;
  readonly tags: ReadonlyMap<string, string>;
  /** Unix seconds of the first row. */
  readonly startSeconds: number;
  /** Behind the last row; some functions leave it apart from start, step and length. */
  readonly endSeconds: number;
  readonly stepSeconds: number;
  /** How rows are put together where there have to be fewer. */
  readonly consolidation: ConsolidationName;
  /** Least share of rows with a value for a row that is made of several. */
  readonly xFilesFactor: number;
  readonly options: GraphOptions;
  /** Functions put none of their own tags beside those of the data: for languages in which series are matched by tags. */
  readonly areTagsFixed?: true;
}

/** Several lists, as `mapSeries` gives. */
export class SeriesGroups {
  readonly lists: readonly (readonly Series[])[];

  constructor(lists: readonly (readonly Series[])[]) {
    this.lists = lists;
  }
}

export function newColumns(length: number): Columns {
  // One memory for both: half as many for the collector.
  const memory = new ArrayBuffer(9 * length);
  return {
    values: new Float64Array(memory, 0, length),
    present: new Uint8Array(memory, 8 * length, length),
  };
}

/** A row, null where there is no value. */
export function rowOf({ values, present }: Columns, index: number): number | null {
  return present[index] === 1 ? values[index]! : null;
}

/** Puts a value into a row; null leaves it without one. */
export function setRow({ values, present }: Columns, index: number, value: number | null): void {
  if (value === null) return;
  values[index] = value;
  present[index] = 1;
}

/** With another name, which is its path expression from now on. */
export function renamed(series: Series, name: string, changes: Partial<Series> = {}): Series {
  return { ...series, name, pathExpression: name, ...changes };
}

/** With a tag more, or another value of it, unless its tags are fixed. */
export function tagged(
  series: Series,
  ...pairs: readonly (readonly [string, string])[]
): ReadonlyMap<string, string> {
  if (series.areTagsFixed === true) return series.tags;
  return new Map([...series.tags, ...pairs]);
}

/** A series that no other one has its tags from. */
export function newSeries(
  name: string,
  startSeconds: number,
  endSeconds: number,
  stepSeconds: number,
  columns: Columns,
  xFilesFactor: number,
): Series {
  return {
    name,
    pathExpression: name,
    tags: tagsOfName(name),
    startSeconds,
    endSeconds,
    stepSeconds,
    values: columns.values,
    present: columns.present,
    consolidation: 'average',
    xFilesFactor,
    options: {},
  };
}

const functionName = /^[a-z]+\(.+\)$/i;

/** Tags of a path such as `disk.used;rack=a1`; what looks like a function is all name. */
export function tagsOfName(name: string): ReadonlyMap<string, string> {
  const [path = '', ...pairs] = functionName.test(name) ? [name] : name.split(';');
  const split = pairs.map(
    (pair) => [pair.split('=')[0]!, pair.slice(pair.indexOf('=') + 1)] as const,
  );
  if (path === '' || split.some(([tag, value]) => tag === '' || value === '')) {
    return new Map([['name', name]]);
  }
  return new Map([...split, ['name', path.replace(/^~+/, '')]]);
}

/** The last value, null when there is none. */
export function lastValue({ values, present }: Columns): number | null {
  const index = present.lastIndexOf(1);
  return index < 0 ? null : values[index]!;
}

/** Whether a row may be made of so many rows with a value of `total` ones. */
export function isEnough(present: number, total: number, xFilesFactor: number): boolean {
  return present > 0 && total > 0 && present / total >= xFilesFactor;
}
