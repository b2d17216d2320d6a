/**
 * Numbers that stand in a kernel and in TypeScript, where AssemblyScript's types keep them from
 * having one home (engine/codec/layout.ts has those of chunks).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  liveLagMax,
  versionGrain,
  versionMax,
  versionNanos,
  versionsPerMilli,
} from '#lib/hybrid_clock.ts';
import { tagsBytesMax, tagsCountMax } from '#lib/tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import * as format from './batch/format.ts';
import { exemplarLabelsMax, exemplarRunesMax } from './typed/exemplar.ts';
import { valueKind } from './typed/typed_value.ts';
import { storeOutcome } from './store/rows.ts';
import * as core from './write_decoder/core.ts';
import { snappyProblem } from './write_decoder/snappy.ts';

/** Constants of a kernel's source by name; those that are whole numbers, products or shifts. */
function constantsOf(file: string): ReadonlyMap<string, number> {
  const text = readFileSync(join(import.meta.dirname, file), 'utf8');
  const found = new Map<string, number>();
  for (const [, name, value] of text.matchAll(/^(?:export )?const (\w+): \w+ = ([\w <-]+);$/gm)) {
    const [number, bits] = value!.split(' << ');
    const whole = Number(number!.replaceAll('_', '')) * 2 ** Number(bits ?? 0);
    if (!Number.isNaN(whole)) found.set(name!, whole);
  }
  return found;
}

function assertNumbers(file: string, expected: Record<string, number>): void {
  const found = constantsOf(file);
  for (const [name, value] of Object.entries(expected)) {
    assert.equal(found.get(name), value, `${name} of ${file}`);
  }
}

test('the kernels have the version clock of lib/hybrid_clock.ts', () => {
  assertNumbers('codec/kernel/codec.ts', { versionMax });
  assertNumbers('codec/kernel/rows.ts', { versionsPerMilli, versionNanos: Number(versionNanos) });
  assertNumbers('store/kernel/writes.ts', { liveLagMax, versionGrain });
});

test('the batch kernels lay batches out as engine/batch/format.ts says', () => {
  const { columnEncoding, columnId, sectionKind } = format;
  assertNumbers('batch/kernel/batch.kernel.ts', {
    ROWS_MAX: format.batchRowsMax,
    MAGIC: format.batchMagic,
    FORMAT_VERSION: format.batchFormatVersion,
    HEADER_BYTES: format.headerBytes,
    SECTION_ENTRY_BYTES: format.sectionEntryBytes,
    COLUMN_ENTRY_BYTES: format.columnEntryBytes,
    KIND_FLOAT_SAMPLES: sectionKind.floatSamples,
    ID_SLOT: columnId.slot,
    ID_GENERATION: columnId.generation,
    ID_TIMESTAMP: columnId.timestamp,
    ID_VALUE: columnId.value,
    ENCODING_RAW: columnEncoding.raw,
    ENCODING_DELTA: columnEncoding.delta,
    ENCODING_WHOLE: columnEncoding.whole,
  });
  const { derivesVersions } = format.batchFlag;
  assertNumbers('batch/kernel/replay.kernel.ts', { FLAG_DERIVES_VERSIONS: derivesVersions });
  assertNumbers('batch/kernel/replay.kernel.ts', {
    MAGIC: format.batchMagic,
    FORMAT_VERSION: format.batchFormatVersion,
    HEADER_BYTES: format.headerBytes,
    SECTION_BYTES: format.sectionEntryBytes,
    COLUMN_BYTES: format.columnEntryBytes,
    KIND_FLOAT_SAMPLES: sectionKind.floatSamples,
    VERSION_MAX: format.batchVersionMax,
    ENCODING_RAW: columnEncoding.raw,
    ENCODING_CONSTANT: columnEncoding.constant,
    ENCODING_DELTA: columnEncoding.delta,
    ENCODING_WHOLE: columnEncoding.whole,
  });
});

test('the write decoder kernel has the limits and problems of core.ts', () => {
  const problem = core.writeDecoderProblem;
  assertNumbers('write_decoder/kernel/identity/memory.ts', {
    MALFORMED: problem.malformed,
    TOO_MANY_ROWS: problem.tooManyRows,
    NO_ROOM: problem.noRoom,
    TOO_MANY_SYMBOLS: problem.tooManySymbols,
    TOO_MUCH_TEXT: problem.tooMuchText,
    OVERSIZE_SLOT: core.oversizeSlot,
    NAMELESS_SLOT: core.namelessSlot,
    UNRESOLVED_SLOT: core.unresolvedSlot,
    EXEMPLARS_MAX: core.exemplarsMax,
    EXEMPLAR_BYTES_MAX: core.exemplarBytesMax,
    EXEMPLAR_RUNES_MAX: exemplarRunesMax,
    EXEMPLAR_LABELS_MAX: exemplarLabelsMax,
    METADATA_MAX: core.metadataMax,
    TAGS_COUNT_MAX: tagsCountMax,
    TAGS_BYTES_MAX: tagsBytesMax,
    ROWS_MAX: core.writeDecoderRowsMax,
    BODY_BYTES_MAX: core.bodyBytesMax,
    RAW_BYTES_MAX: core.rawBytesMax,
    SYMBOLS_MAX: core.symbolsMax,
    LABEL_TEXT_BYTES_MAX: core.labelTextBytesMax,
  });
  assertNumbers('write_decoder/kernel/remote_write/exemplars.ts', {
    TOO_LONG: core.exemplarProblem.tooLong,
    NOT_UTF8: core.exemplarProblem.notUtf8,
    BAD_REFERENCE: core.exemplarProblem.badReference,
    BAD_TIME: core.exemplarProblem.badTime,
  });
  assertNumbers('typed/kernel/fields.ts', {
    kindHistogram: valueKind.histogram,
    kindExemplar: valueKind.exemplar,
    kindLast: valueKind.metadata,
  });
  assertNumbers('write_decoder/kernel/wire/snappy.ts', {
    SNAPPY_BAD_LENGTH: snappyProblem.badLength,
    SNAPPY_TOO_LONG: snappyProblem.tooLong,
    SNAPPY_CORRUPT: snappyProblem.corrupt,
  });
  assertNumbers('write_decoder/kernel/identity/verdict.ts', {
    ID_SCHEME_QUOTED: idSchemeCode.quoted,
  });
});

test('the store kernel gives the outcomes of rows.ts', () => {
  assertNumbers('store/kernel/writes.ts', {
    outcomeWritten: storeOutcome.written,
    outcomeUnknownReference: storeOutcome.unknownReference,
    outcomeTooFarPast: storeOutcome.tooFarPast,
    outcomeTooFarFuture: storeOutcome.tooFarFuture,
    outcomeResourceExhausted: storeOutcome.resourceExhausted,
    outcomeBadValue: storeOutcome.badValue,
  });
});
