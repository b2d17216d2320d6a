/**
 * Deletions of series and ranges as values: what one says, its JSON, and when it may be forgotten
 * (docs/formats/deletions.md).
 */
import { type IndexQuery, queryFromJson, queryToJson } from '#lib/index_query.ts';
import { clampNanos, type UnixNanos } from '#lib/time.ts';
import { Fields } from '../fields.ts';
import type { Namespace } from '../namespaces/namespaces.ts';

/** What is asked for. */
export interface DeletionRequest {
  readonly namespace: string;
  readonly query: IndexQuery;
  readonly startNanos: UnixNanos;
  /** Not included. */
  readonly endNanos: UnixNanos;
  /** As they were asked for, for people. */
  readonly selectors: readonly string[];
}

/**
 * Rows of series that match, with a time in the range and a version up to this one, are deleted.
 */
export interface Deletion extends DeletionRequest {
  /** From 1; orders all deletions of a cluster. */
  readonly sequence: number;
  /** Of the hybrid clock (lib/hybrid_clock.ts). */
  readonly version: number;
  readonly createdNanos: UnixNanos;
  /** No row that it would delete is anywhere from this time on. */
  readonly expiresNanos: UnixNanos;
}

/** A deletion that covers a namespace has this range. */
export const allTime: { readonly startNanos: bigint; readonly endNanos: bigint } = {
  startNanos: -(2n ** 63n),
  endNanos: 2n ** 63n - 1n,
};

/** Whether it deletes everything of its namespace. */
export function deletesAll({ query, startNanos, endNanos }: DeletionRequest): boolean {
  return query.kind === 'all' && startNanos <= allTime.startNanos && endNanos >= allTime.endNanos;
}

/** When the rows that are there now have all expired, with the namespace as it is. */
export function expiryOf({ options }: Namespace, nowNanos: UnixNanos): UnixNanos {
  const { retentionPeriodNanos, blockSizeNanos, bufferFutureNanos, futureRetentionPeriodNanos } =
    options.retentionOptions;
  const future = bufferFutureNanos + futureRetentionPeriodNanos;
  return clampNanos(nowNanos + retentionPeriodNanos + 2n * blockSizeNanos + future);
}

/** Whether it may be retired; a retention that became longer since counts. */
export function isExpired(
  deletion: Deletion,
  namespace: Namespace | undefined,
  nowNanos: UnixNanos,
): boolean {
  if (nowNanos < deletion.expiresNanos) return false;
  return namespace === undefined || nowNanos >= expiryOf(namespace, deletion.createdNanos);
}

export function deletionToJson(deletion: Deletion): Record<string, unknown> {
  return {
    sequence: deletion.sequence,
    namespace: deletion.namespace,
    query: queryToJson(deletion.query),
    startNanos: String(deletion.startNanos),
    endNanos: String(deletion.endNanos),
    version: deletion.version,
    createdNanos: String(deletion.createdNanos),
    expiresNanos: String(deletion.expiresNanos),
    selectors: deletion.selectors,
  };
}

/** Reads the fields of a deletion; others may be there. @throws {TsdbError} BAD_REQUEST */
export function deletionOfFields(fields: Fields): Deletion {
  return {
    sequence: Number(fields.int64('sequence', 0n)),
    namespace: fields.string('namespace', ''),
    query: queryFromJson(fields.any('query')),
    startNanos: fields.int64('startNanos', 0n),
    endNanos: fields.int64('endNanos', 0n),
    version: Number(fields.int64('version', 0n)),
    createdNanos: fields.int64('createdNanos', 0n),
    expiresNanos: fields.int64('expiresNanos', 0n),
    selectors: fields.strings('selectors'),
  };
}

/**
 * A deletion as it is stored. Its fields may have unknown ones beside them; its query may not,
 * since what a part of it leaves out is deleted by those who pass over that part.
 * @throws {TsdbError} BAD_REQUEST
 */
export function deletionFromJson(json: unknown): Deletion {
  return deletionOfFields(Fields.ofStored(json, 'deletion', []));
}
