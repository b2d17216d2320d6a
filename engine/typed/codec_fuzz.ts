/**
 * Holds the kernel of typed chunks equal to its twin: the same bytes for the same rows, the same rows or the same
 * refusal for the same bytes, however damaged.
 */
import assert from 'node:assert/strict';
import { badRequest } from '#lib/errors.ts';
import { countInputs } from '#test/sim/counts.ts';
import { chunkKind, kindsAll, parseChunkHeader } from '../codec/chunk.ts';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { decodeTypedChunk, encodeTypedChunk, type TypedRows as RowsOfTwin } from './chunk_twin.ts';
import { decodeTypedRows, encodeTypedRows, type TypedRows } from './codec.ts';
import { typedSample, varied } from './samples_testing.ts';

/** Values one after the other. */
export function inColumns({
  timestampNanos,
  values,
  rowVersions,
  startNanos,
}: RowsOfTwin): TypedRows {
  let end = 0;
  const valueEnds = Uint32Array.from(values, ({ length }) => (end += length));
  return {
    timestampNanos,
    valueBytes: new Uint8Array(Buffer.concat(values)),
    valueEnds,
    rowVersions,
    startNanos,
  };
}

function withTwin(chunk: Uint8Array): RowsOfTwin {
  const header = parseChunkHeader(chunk, 0, chunk.length, kindsAll);
  if (header.end !== chunk.length || header.kind !== chunkKind.typed) {
    throw badRequest('it is not one typed chunk');
  }
  return decodeTypedChunk(chunk, header);
}

function refusedOr<Answer>(decode: () => Answer): Answer | 'refused' {
  try {
    return decode();
  } catch (error) {
    // Whatever else is thrown is none of it: a trap of the kernel, say.
    assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    return 'refused';
  }
}

function assertSame(chunk: Uint8Array, label: string): void {
  const kernel = refusedOr(() => decodeTypedRows(chunk));
  const twin = refusedOr(() => withTwin(chunk));
  if (kernel === 'refused' || twin === 'refused') {
    assert.equal(kernel === 'refused', twin === 'refused', `one refuses: ${label}`);
    return;
  }
  const wanted = inColumns(twin);
  for (const column of ['timestampNanos', 'valueEnds', 'rowVersions', 'startNanos'] as const) {
    assert.deepEqual(kernel[column], wanted[column], `${column} of ${label}`);
  }
  assert.ok(Buffer.compare(kernel.valueBytes, wanted.valueBytes) === 0, `values of ${label}`);
}

/** A copy with some bits or bytes changed, cut, or said twice; its length is mended most of the time. */
function damaged(bytes: Uint8Array, numbers: SeededNumbers): Uint8Array {
  let copy = bytes.slice();
  for (let count = 1 + numbers.below(3); count > 0; count--) {
    const at = numbers.below(copy.length);
    const kind = numbers.below(10);
    if (kind < 4) copy[at]! ^= 1 << numbers.below(8);
    else if (kind < 6) copy[at] = numbers.u32();
    else if (kind < 8) copy[at] = numbers.below(8);
    else if (kind < 9) copy = copy.slice(0, at + 1);
    else copy = new Uint8Array([...copy.subarray(0, at), ...copy.subarray(at >> 1)]);
  }
  return copy;
}

const mutationCount = 20;
export const inputsOfRound: number = mutationCount + 2;

/** @param size how many rounds of `inputsOfRound` inputs; each takes some milliseconds */
export function fuzz(seed: number, size: number): void {
  const { stackTraceLimit } = Error;
  // Most inputs are refused by an error that nobody looks at.
  Error.stackTraceLimit = 0;
  try {
    const numbers = new SeededNumbers(seed);
    countInputs('typed codec', inputsOfRound * size);
    for (let round = 0; round < size; round++) fuzzRound(numbers, `seed ${seed}, round ${round}`);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function fuzzRound(numbers: SeededNumbers, label: string): void {
  const rowCount = 1 + numbers.below(numbers.below(16) === 0 ? 200 : 24);
  const { name, rows } = typedSample(numbers.u32(), rowCount);
  const each = varied(rows, numbers);
  const chunk = encodeTypedChunk(each);
  const encoded = encodeTypedRows(inColumns(each));
  if (Buffer.compare(encoded, chunk) !== 0) {
    assert.deepEqual(encoded, chunk, `bytes of ${name}, ${label}`);
  }
  assertSame(chunk, `${name}, ${label}`);
  for (let count = 0; count < mutationCount; count++) {
    assertSame(damaged(chunk, numbers), `damaged ${name}, ${label}`);
  }
}
