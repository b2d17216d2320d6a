/** What tests of the write decoder share: options, both cores, and labels. */
import { murmur3 } from '#lib/hashing/hash.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, type Tag, tagsProblem } from '#lib/tags.ts';
import { type SeriesVerdict, type WriteDecoderOptions } from './write_decoder.ts';
import { type WriteDecoderCore } from './core.ts';
import { WriteDecoderKernel } from './kernel.ts';
import { WriteDecoderTwin } from './write_decoder_twin.ts';

export function verdictOf(tags: Uint8Array): SeriesVerdict {
  const decoded = decodeTags(tags);
  return {
    idScheme: idSchemeCode.quoted,
    explicitId: new Uint8Array(0),
    idHash: murmur3(Buffer.from(idOfTags(decoded, 'quoted'))),
    problem: tagsProblem(decoded),
  };
}

export const random: WriteDecoderOptions['random'] = {
  u32: () => 0x1234_5678,
  bytes: (length: number) => new Uint8Array(length).fill(7),
  fraction: () => 0.5,
};
export const options: WriteDecoderOptions = { random, memoryBytesMax: 64 * 1024 * 1024, verdictOf };

export const cores: [name: string, make: () => WriteDecoderCore][] = [
  ['twin', () => new WriteDecoderTwin()],
  ['kernel', () => new WriteDecoderKernel(random, options.memoryBytesMax)],
];

export const tag = (name: string, value: string): Tag => ({ name, value });
export const up: readonly Tag[] = [
  tag('__name__', 'up'),
  tag('instance', 'a:9100'),
  tag('job', 'node'),
];

export function bitsOf(values: Float64Array): bigint[] {
  return [...new BigUint64Array(values.slice().buffer)];
}
