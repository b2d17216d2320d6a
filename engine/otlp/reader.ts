/**
 * OTLP metrics (an ExportMetricsServiceRequest) become rows of the write decoder, as Prometheus' receiver has it
 * (docs/OTLP.md). A body is walked once, in parts of what is written at once; series that came before are found by the
 * bytes of their resource, scope, metric and attributes, and only new ones have their labels made.
 */
import type { Random } from '#lib/env/env.ts';
import type { WriteDecoder } from '../write_decoder/write_decoder.ts';
import { BodyWalk } from './body_walk.ts';
import { LabelMaker } from './labels/labels.ts';
import { Names } from './labels/names.ts';
import { SeriesCache } from '../series_cache/series_cache.ts';
import type { OtlpBody, OtlpKnown, OtlpSetting } from './points/types.ts';

export class OtlpReader {
  readonly #decoder: WriteDecoder;
  readonly #setting: OtlpSetting;
  readonly #known: OtlpKnown;

  /** @param memoryBytesMax of what is known of series, about */
  constructor(
    decoder: WriteDecoder,
    setting: OtlpSetting,
    random: Pick<Random, 'bytes'>,
    memoryBytesMax: number,
  ) {
    this.#decoder = decoder;
    this.#setting = setting;
    const names = new Names(setting.translationStrategy);
    this.#known = {
      cache: new SeriesCache(random, memoryBytesMax),
      resources: new Map(),
      scopes: new Map(),
      families: new Map(),
      problems: new Map(),
      names,
      labels: new LabelMaker(names, setting),
    };
  }

  /** Of what is known of series. */
  get memoryBytes(): number {
    return this.#known.cache.bytes;
  }

  /** @param body borrowed until its last part is read */
  open(body: Uint8Array): OtlpBody {
    return new BodyWalk(body, this.#decoder, this.#known, this.#setting);
  }
}
