/**
 * The buckets of one side of a histogram, and what is added to them. Which buckets there are, their *layout*, is shared by
 * all histograms that have the same ones, and never changed: where it is one array, no bucket has to be looked for.
 */
import type { Buckets } from '../typed/histogram.ts';
import { coarserIndex } from './bounds.ts';

export const noBuckets: Buckets = { indexes: new Int32Array(0), counts: new Float64Array(0) };

/** With what its counts have lost by rounding. */
export interface SummedBuckets extends Buckets {
  readonly lost: Float64Array;
}

/**
 * Adds `value` to counts[at], and to lost[at] what is rounded away (Neumaier's variant of Kahan's summation). Sums beyond
 * all numbers have lost nothing.
 */
export function addExactly(
  counts: Float64Array,
  lost: Float64Array,
  at: number,
  value: number,
): void {
  const sum = counts[at]!;
  const total = sum + value;
  if (total === Infinity || total === -Infinity) lost[at] = 0;
  else if (Math.abs(sum) >= Math.abs(value)) lost[at]! += sum - total + value;
  else lost[at]! += value - total + sum;
  counts[at] = total;
}

/** The layout of both; `a` itself when it has all of `b`. */
export function unionOf(a: Int32Array, b: Int32Array): Int32Array {
  if (a === b || hasAll(a, b)) return a;
  if (a.length === 0) return b;
  const union = new Int32Array(a.length + b.length);
  let length = 0;
  for (let i = 0, j = 0; i < a.length || j < b.length; length++) {
    const next = i < a.length ? a[i]! : Infinity;
    const other = j < b.length ? b[j]! : Infinity;
    union[length] = Math.min(next, other);
    if (next <= other) i++;
    if (other <= next) j++;
  }
  return union.slice(0, length);
}

function hasAll(a: Int32Array, b: Int32Array): boolean {
  if (a.length < b.length) return false;
  for (let i = 0, j = 0; j < b.length; i++, j++) {
    const index = b[j]!;
    while (i < a.length && a[i]! < index) i++;
    if (a[i] !== index) return false;
  }
  return true;
}

/** The counts in a layout that has all of their own. */
export function spread(
  counts: Float64Array,
  from: Int32Array,
  to: Int32Array,
): Float64Array<ArrayBuffer> {
  const wide = new Float64Array(to.length);
  for (let i = 0, at = 0; i < from.length; i++, at++) {
    while (to[at] !== from[i]) at++;
    wide[at] = counts[i]!;
  }
  return wide;
}

/** a + sign · b, in new counts. */
export function sumOf(a: Buckets, b: Buckets, sign: 1 | -1): Buckets {
  const indexes = unionOf(a.indexes, b.indexes);
  const counts = spread(a.counts, a.indexes, indexes);
  for (let i = 0, at = 0; i < b.indexes.length; i++, at++) {
    while (indexes[at] !== b.indexes[i]) at++;
    counts[at]! += sign * b.counts[i]!;
  }
  return { indexes, counts };
}

/** Two layouts, the one of both, and where the buckets of `b` are in it. */
export interface JoinedLayouts {
  readonly a: Int32Array;
  readonly b: Int32Array;
  readonly indexes: Int32Array;
  readonly places: Int32Array;
}

/**
 * Of the layouts that were joined last: a series whose histograms have one layout is added to the sums of all steps, which
 * have one layout, too, as long as each is made of the ones before in the same way.
 */
let joinedLast: JoinedLayouts = {
  a: noBuckets.indexes,
  b: noBuckets.indexes,
  indexes: noBuckets.indexes,
  places: noBuckets.indexes,
};

/** The layout of both, and where the buckets of `b` are in it; `a` itself when it has all of them. */
export function joinedLayouts(a: Int32Array, b: Int32Array): JoinedLayouts {
  if (a === joinedLast.a && b === joinedLast.b) return joinedLast;
  const indexes = unionOf(a, b);
  const places = new Int32Array(b.length);
  for (let i = 0, at = 0; i < b.length; i++, at++) {
    while (indexes[at] !== b[i]) at++;
    places[i] = at;
  }
  joinedLast = { a, b, indexes, places };
  return joinedLast;
}

/** a + b; counts of `a` are used again where its layout has that of `b`. */
export function exactSumOf(a: SummedBuckets, b: Buckets | SummedBuckets): SummedBuckets {
  if (b.indexes.length === 0) return a;
  const { indexes, places } = joinedLayouts(a.indexes, b.indexes);
  const isSame = indexes === a.indexes;
  const counts = isSame ? a.counts : spread(a.counts, a.indexes, indexes);
  const lost = isSame ? a.lost : spread(a.lost, a.indexes, indexes);
  const others = b.counts;
  for (let i = 0; i < places.length; i++) {
    // What is empty changes nothing.
    if (others[i] !== 0) addExactly(counts, lost, places[i]!, others[i]!);
  }
  if ('lost' in b) {
    for (let i = 0; i < places.length; i++) {
      if (b.lost[i] !== 0) addExactly(counts, lost, places[i]!, b.lost[i]!);
    }
  }
  return isSame ? a : { indexes, counts, lost };
}

/** Without so many of the lowest ones. */
export function tailOf<T extends Buckets | SummedBuckets>(buckets: T, first: number): T {
  if (first === 0) return buckets;
  const { indexes, counts } = buckets;
  const tail: Buckets = { indexes: indexes.subarray(first), counts: counts.subarray(first) };
  if (!('lost' in buckets)) return tail as T;
  return { ...tail, lost: buckets.lost.subarray(first) } as Buckets as T;
}

/** In the buckets of a coarser schema; the same when it is not coarser. */
export function coarsened<T extends Buckets | SummedBuckets>(
  buckets: T,
  schema: number,
  coarser: number,
): T {
  if (schema === coarser) return buckets;
  const { indexes, places } = coarserPlaces(buckets.indexes, schema, coarser);
  const counts = new Float64Array(indexes.length);
  if (!('lost' in buckets)) {
    for (const [i, at] of places.entries()) counts[at]! += buckets.counts[i]!;
    return { indexes, counts } as T;
  }
  const lost = new Float64Array(indexes.length);
  for (const [i, at] of places.entries()) {
    addExactly(counts, lost, at, buckets.counts[i]!);
    addExactly(counts, lost, at, buckets.lost[i]!);
  }
  return { indexes, counts, lost } as Buckets as T;
}

/** Where each bucket goes in the layout of the coarser ones. */
function coarserPlaces(
  from: Int32Array,
  schema: number,
  coarser: number,
): { indexes: Int32Array; places: Int32Array } {
  const indexes = new Int32Array(from.length);
  const places = new Int32Array(from.length);
  let length = 0;
  for (const [i, index] of from.entries()) {
    const next = coarserIndex(index, schema, coarser);
    if (length === 0 || indexes[length - 1] !== next) indexes[length++] = next;
    places[i] = length - 1;
  }
  return { indexes: indexes.slice(0, length), places };
}

/** Without those that are empty; itself when none is. */
export function compacted<T extends Buckets | SummedBuckets>(buckets: T): T {
  const { indexes, counts } = buckets;
  const lost = 'lost' in buckets ? buckets.lost : null;
  let kept = 0;
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] !== 0 || (lost !== null && lost[i] !== 0)) kept++;
  }
  if (kept === counts.length) return buckets;
  const compact = { indexes: new Int32Array(kept), counts: new Float64Array(kept) };
  const stillLost = lost === null ? null : new Float64Array(kept);
  for (let i = 0, at = 0; at < kept; i++) {
    const count = counts[i]!;
    if (count === 0 && (lost === null || lost[i] === 0)) continue;
    compact.indexes[at] = indexes[i]!;
    compact.counts[at] = count;
    if (stillLost !== null) stillLost[at] = lost![i]!;
    at++;
  }
  return (stillLost === null ? compact : { ...compact, lost: stillLost }) as Buckets as T;
}

/** For each bucket between custom bounds, which one of fewer bounds it is in. */
export function placesAmong(
  indexes: Int32Array,
  bounds: Float64Array,
  fewer: Float64Array,
): Int32Array {
  let place = 0;
  return indexes.map((index) => {
    if (index >= bounds.length) return fewer.length;
    while (place < fewer.length && fewer[place]! < bounds[index]!) place++;
    return place;
  });
}

/** Which layout all buckets between so many bounds have. */
export function layoutOfBounds(bounds: Float64Array): Int32Array {
  return Int32Array.from({ length: bounds.length + 1 }, (_, i) => i);
}
