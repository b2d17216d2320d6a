/** Bodies of OTLP and readers of them, for tests. */
import { SeededRandom } from '#test/seeded_random.ts';
import { type SeriesVerdict, WriteDecoder } from '../write_decoder/write_decoder.ts';
import { WriteDecoderTwin } from '../write_decoder/write_decoder_twin.ts';
import { wireFromOtlpJson } from './wire/json.ts';
import { OtlpReader } from './reader.ts';
import type { OtlpSetting } from './points/types.ts';

export const otlpSetting: OtlpSetting = {
  translationStrategy: 'UnderscoreEscapingWithSuffixes',
  promotedAttributes: new Set(),
  promotesAll: false,
  ignoredAttributes: new Set(),
  keepsIdentifying: false,
  promotesScope: false,
  typeAndUnitLabels: false,
  convertsHistograms: false,
  storesDeltas: false,
  lookbackMillis: 300_000,
};

const verdict: SeriesVerdict = {
  idScheme: 1,
  explicitId: new Uint8Array(0),
  idHash: 0,
  problem: null,
};

const bytesOfReaders = new Map<number, Uint8Array>();

/** Gives readers the bytes that they begin with, which are the same for all, without making them anew. */
class SameRandom extends SeededRandom {
  override bytes(length: number): Uint8Array {
    const known = bytesOfReaders.get(length) ?? super.bytes(length);
    bytesOfReaders.set(length, known);
    return known;
  }
}

/**
 * @param withTwin the slow decoder, which forgets no series
 * @param cacheBytesMax of what is known of series
 */
export function openReader(
  setting: Partial<OtlpSetting> = {},
  withTwin = false,
  memoryBytesMax: number = 64 << 20,
  cacheBytesMax: number = memoryBytesMax,
): { readonly decoder: WriteDecoder; readonly reader: OtlpReader } {
  const random = new SameRandom(1);
  const options = { random, memoryBytesMax, verdictOf: () => verdict, plainQuoted: true };
  const decoder = withTwin
    ? new WriteDecoder(options, new WriteDecoderTwin())
    : new WriteDecoder(options);
  const reader = new OtlpReader(decoder, { ...otlpSetting, ...setting }, random, cacheBytesMax);
  return { decoder, reader };
}

export function attributes(
  texts: Readonly<Record<string, string>>,
): { readonly key: string; readonly value: { readonly stringValue: string } }[] {
  return Object.entries(texts).map(([key, stringValue]) => ({ key, value: { stringValue } }));
}

/** Of one resource and scope. @param metrics as JSON has them */
export function bodyOf(
  metrics: readonly object[],
  resource: Readonly<Record<string, string>> = {},
  scope: object = {},
): Uint8Array {
  return wireFromOtlpJson({
    resourceMetrics: [
      { resource: { attributes: attributes(resource) }, scopeMetrics: [{ scope, metrics }] },
    ],
  });
}
