/** The messages of lib/proto/aggregator.proto as what is asked for, and answered. */
import { loadProto, type ProtoMessage, type ProtoSchema } from '#lib/env/proto.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { shardsMax } from '../../limits.ts';
import { rangesOf, shardsOfRanges } from '../../placement/shard_ranges.ts';
import { accumulatorFields, isQuantile } from '../../aggregation_rules/rollups/accumulators.ts';
import type { Outputs } from '../../aggregation_rules/rollups/outputs.ts';
import { QuantileSketch } from '../../aggregation_rules/rollups/quantile_sketch.ts';
import type { OutputParts, PartsRequest } from './service.ts';

const schema: ProtoSchema = loadProto(
  new URL('../../../lib/proto/aggregator.proto', import.meta.url),
);
const requestCodec = schema.codec('tsdb.aggregator.v1.PartsRequest', 100);
const pageCodec = schema.codec('tsdb.aggregator.v1.PartsPage');

export const partsPath = '/tsdb.aggregator.v1.Aggregator/Parts';

/** About so large are the pages of an answer. */
export const partsPageBytes: number = 1 << 20;
/** A window of an output takes a hundred bytes, and its name some hundreds. */
export const partsPageBytesMax: number = 8 << 20;
/** Windows that are asked for at once, at most: more than a step makes. */
const windowsMax = 512;

export function encodePartsRequest(request: PartsRequest): Uint8Array {
  const { policy, windows, isFinal, storageShards, numShards, shards } = request;
  return requestCodec.encode({
    resolutionNanos: policy.resolutionNanos,
    retentionNanos: policy.retentionNanos,
    firstEndNanos: windows.firstEndNanos,
    windowCount: windows.windowCount,
    isFinal,
    storageShards: rangesOf(storageShards),
    numShards,
    shards: rangesOf(shards),
    storeLineage: request.storeLineage,
    numStorageShards: request.numStorageShards,
    namespacesRevision: request.namespacesRevision,
  });
}

/** @throws {TsdbError} BAD_REQUEST naming the field */
export function decodePartsRequest(bytes: Uint8Array): PartsRequest {
  const message = requestCodec.decode(bytes);
  const resolutionNanos = message['resolutionNanos'] as bigint;
  const firstEndNanos = message['firstEndNanos'] as bigint;
  const windowCount = message['windowCount'] as number;
  const numShards = message['numShards'] as number;
  if (resolutionNanos <= 0n) throw badRequest('resolution_nanos: it must be above 0');
  if (firstEndNanos <= 0n || firstEndNanos % resolutionNanos !== 0n) {
    throw badRequest(`first_end_nanos: it must be a multiple of the resolution: ${firstEndNanos}`);
  }
  if (!(windowCount >= 1 && windowCount <= windowsMax)) {
    throw badRequest(`window_count: it must be between 1 and ${windowsMax}: ${windowCount}`);
  }
  if (!(numShards >= 1 && numShards <= shardsMax)) {
    throw badRequest(`num_shards: it must be between 1 and ${shardsMax}: ${numShards}`);
  }
  const numStorageShards = message['numStorageShards'] as number;
  if (!(numStorageShards >= 1 && numStorageShards <= shardsMax)) {
    throw badRequest(
      `num_storage_shards: it must be between 1 and ${shardsMax}: ${numStorageShards}`,
    );
  }
  return {
    policy: { resolutionNanos, retentionNanos: message['retentionNanos'] as bigint },
    windows: { resolutionNanos, firstEndNanos, windowCount },
    isFinal: message['isFinal'] as boolean,
    storeLineage: message['storeLineage'] as string,
    namespacesRevision: Number(message['namespacesRevision'] as bigint),
    numStorageShards,
    storageShards: shardsOfText(message, 'storageShards', 'storage_shards', numStorageShards),
    numShards,
    shards: shardsOfText(message, 'shards', 'shards', numShards),
  };
}

function shardsOfText(message: ProtoMessage, key: string, name: string, past: number): number[] {
  const text = message[key] as string;
  const shards = shardsOfRanges(text);
  if (shards === null || shards.at(-1)! >= past) {
    throw badRequest(`${name}: it must be ascending numbers below ${past}: ${shownText(text)}`);
  }
  return shards;
}

/** The pages of an answer. */
export function* partsPages(outputs: readonly OutputParts[]): Generator<Uint8Array> {
  let page: ProtoMessage[] = [];
  let bytes = 0;
  for (const one of outputs) {
    const message = messageOf(one);
    page.push(message);
    bytes += message['output'].length + message['windows'].length + message['numbers'].length;
    for (const sketch of message['sketches'] as Uint8Array[]) bytes += sketch.length;
    if (bytes < partsPageBytes) continue;
    yield pageCodec.encode({ outputs: page, isLast: false });
    page = [];
    bytes = 0;
  }
  yield pageCodec.encode({ outputs: page, isLast: true });
}

function messageOf({ output, windows, parts }: OutputParts): ProtoMessage {
  const numbers = new Float64Array(parts.length * accumulatorFields);
  for (const [i, part] of parts.entries()) numbers.set(part.numbers, i * accumulatorFields);
  const sketches = parts.flatMap(({ sketch }) => (sketch === null ? [] : [sketch.toNumbers()]));
  return {
    output: output.key,
    windows: bytesOf(windows),
    numbers: bytesOf(numbers),
    sketches: sketches.map(bytesOf),
  };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Uint32Array | Float64Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/**
 * @param outputs gives the outputs; those that are alike are one
 * @throws {TsdbError} BAD_REQUEST
 */
export function decodePartsPage(
  bytes: Uint8Array,
  outputs: Outputs,
): { readonly outputs: readonly OutputParts[]; readonly isLast: boolean } {
  const message = pageCodec.decode(bytes);
  const list = message['outputs'] as ProtoMessage[];
  return {
    outputs: list.map((one) => {
      const output = outputs.ofKey(one['output']);
      const windows = new Uint32Array(aligned(one['windows'], 4));
      const numbers = new Float64Array(aligned(one['numbers'], 8));
      const sketches = one['sketches'] as Uint8Array[];
      const hasSketches = output.types.some(isQuantile);
      const isWhole =
        numbers.length === windows.length * accumulatorFields &&
        sketches.length === (hasSketches ? windows.length : 0);
      if (!isWhole) throw badRequest('outputs: there is not one part for each window');
      const parts = Array.from(windows, (_, i) => ({
        numbers: numbers.subarray(i * accumulatorFields, (i + 1) * accumulatorFields),
        sketch: hasSketches
          ? QuantileSketch.ofNumbers(new Float64Array(aligned(sketches[i]!, 8)))
          : null,
      }));
      return { output, windows, parts };
    }),
    isLast: message['isLast'],
  };
}

function aligned(bytes: Uint8Array, size: number): ArrayBuffer {
  if (bytes.length % size !== 0) {
    throw badRequest(`outputs: ${bytes.length} bytes are no numbers of ${size}`);
  }
  return new Uint8Array(bytes).buffer;
}
