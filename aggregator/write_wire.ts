/** The messages of `Write` in lib/proto/aggregator.proto as what they mean, and the method for `serveGrpc`. */
import type { GrpcMethod } from '#lib/env/grpc.ts';
import { countField, loadProto, type ProtoMessage, type ProtoSchema } from '#lib/env/proto.ts';
import { badRequest } from '#lib/errors.ts';
import type { Tag } from '#lib/tags.ts';

export interface SeriesRows {
  readonly tags: readonly Tag[];
  readonly timestampNanos: BigInt64Array;
  /** One for each of them. */
  readonly values: Float64Array;
}

export interface RefusedSeries {
  /** Its place in the request. */
  readonly series: number;
  readonly rows: number;
  readonly reason: string;
}

const schema: ProtoSchema = loadProto(new URL('../lib/proto/aggregator.proto', import.meta.url));
/** Series of a request, and rows. */
export const rowsMax = 100_000;
const seriesField = 1;
/** Of a request of as many series as rows, each with some tags. */
const valuesMax = 5_000_000;
const requestCodec = schema.codec('tsdb.aggregator.v1.WriteRequest', valuesMax);
const responseCodec = schema.codec('tsdb.aggregator.v1.WriteResponse');

const writePath = '/tsdb.aggregator.v1.Aggregator/Write';
export const writeBytesMax: number = 32 << 20;

export function writeMethod(
  write: (series: readonly SeriesRows[], signal: AbortSignal) => Promise<readonly RefusedSeries[]>,
): GrpcMethod {
  return {
    kind: 'unary',
    path: writePath,
    requestBytesMax: writeBytesMax,
    handle: async (bytes, { signal }) => {
      const count = countField(bytes, seriesField);
      if (count > rowsMax) throw badRequest(`series: there are ${count} of ${rowsMax} at most`);
      const { series } = requestCodec.decode(bytes) as { series: ProtoMessage[] };
      return responseCodec.encode({ refused: await write(series.map(rowsOf), signal) });
    },
  };
}

function rowsOf(message: ProtoMessage, place: number): SeriesRows {
  const nanos = wordsOf(message['timestampsNanos'], `series[${place}].timestamps_nanos`);
  const values = wordsOf(message['values'], `series[${place}].values`);
  if (nanos.byteLength !== values.byteLength) {
    throw badRequest(
      `series[${place}].values: there are ${values.byteLength / 8} of ${nanos.byteLength / 8} timestamps`,
    );
  }
  return {
    tags: message['tags'] as Tag[],
    timestampNanos: new BigInt64Array(nanos),
    values: new Float64Array(values),
  };
}

function wordsOf(bytes: Uint8Array, field: string): ArrayBuffer {
  if (bytes.length % 8 === 0) return new Uint8Array(bytes).buffer;
  throw badRequest(`${field}: ${bytes.length} bytes are no numbers of 8`);
}
