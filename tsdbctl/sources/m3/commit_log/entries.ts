/** What the messages of a commit log of M3 say. */
import { badRequest } from '#lib/errors.ts';
import { MessageReader, objectTypes } from '../bytes/msgpack.ts';

const infoFieldsMin = 3;
const entryFieldsMin = 7;
const metadataFieldsMin = 3;

/** A row; halves of numbers are signed. */
export interface LogEntry {
  /** Number of its series in the file. */
  index: number;
  /** Of the first row of a series in the file; empty for others. */
  metadata: Uint8Array;
  timeHigh: number;
  timeLow: number;
  valueHigh: number;
  valueLow: number;
  annotation: Uint8Array;
}

export function emptyEntry(): LogEntry {
  const bytes = new Uint8Array();
  const words = { timeHigh: 0, timeLow: 0, valueHigh: 0, valueLow: 0 };
  return { index: 0, metadata: bytes, ...words, annotation: bytes };
}

export interface LogMetadata {
  readonly id: Uint8Array;
  readonly namespace: Uint8Array;
  readonly encodedTags: Uint8Array;
}

/** @throws {TsdbError} BAD_REQUEST when the file does not begin as a commit log does */
export function checkLogInfo(reader: MessageReader): void {
  reader.object(objectTypes.logInfo, infoFieldsMin);
  reader.whole();
  reader.whole();
  reader.whole();
  checkWhole(reader);
}

/**
 * Reads a message to an entry.
 * @throws {TsdbError} BAD_REQUEST when it is something else
 */
export function readLogEntry(reader: MessageReader, entry: LogEntry): void {
  reader.object(objectTypes.logEntry, entryFieldsMin);
  entry.index = reader.number();
  // When it was written.
  reader.whole();
  entry.metadata = reader.bytes();
  reader.whole();
  entry.timeHigh = reader.high;
  entry.timeLow = reader.low;
  reader.float();
  entry.valueHigh = reader.high;
  entry.valueLow = reader.low;
  // The unit of the time, which is in nanoseconds all the same.
  reader.whole();
  entry.annotation = reader.bytes();
  checkWhole(reader);
}

/** @throws {TsdbError} BAD_REQUEST when they are something else */
export function readLogMetadata(bytes: Uint8Array): LogMetadata {
  const reader = new MessageReader(bytes);
  reader.object(objectTypes.logMetadata, metadataFieldsMin);
  const id = reader.bytes();
  const namespace = reader.bytes();
  // The shard.
  reader.whole();
  // M3 says three fields and writes four.
  const encodedTags = reader.isAtEnd ? new Uint8Array() : reader.bytes();
  checkWhole(reader);
  return { id, namespace, encodedTags };
}

function checkWhole(reader: MessageReader): void {
  if (reader.isCutOff) throw badRequest('message is cut off');
}
