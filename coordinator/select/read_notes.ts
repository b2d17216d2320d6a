/** What a request has read: the headers of its answer say it. */
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { RequestBytes } from '#lib/read_memory/read_memory.ts';

/** What one read of a namespace has brought. */
export interface NamespaceRead {
  readonly name: string;
  readonly of: 'samples' | 'windows';
  /** Instances that answered. */
  readonly responses: number;
  /** Null where names or values alone were asked for. */
  readonly bundle: SeriesBundle | null;
  /** Names and values. */
  readonly names: number;
}

export class ReadNotes {
  readonly #memory: Pick<RequestBytes, 'waits'>;
  readonly #names = new Set<string>();
  /** Each as often as it was read. */
  readonly #series = { samples: 0, windows: 0 };
  responses = 0;
  /** Of tags, IDs and chunks, as they are held. */
  bytes = 0;
  seriesWithRows = 0;
  /** Series, and names and values of tags. */
  metadata = 0;

  /** @param memory of the request */
  constructor(memory: Pick<RequestBytes, 'waits'>) {
    this.#memory = memory;
  }

  /** How often it waited for memory that others had. */
  get waits(): number {
    return this.#memory.waits;
  }

  add({ name, of, responses, bundle, names }: NamespaceRead): void {
    this.#names.add(name);
    this.responses += responses;
    this.metadata += names;
    if (bundle === null) return;
    const { seriesCount, chunkOffset } = bundle;
    this.#series[of] += seriesCount;
    this.metadata += seriesCount;
    this.bytes += bundleBytes(bundle);
    for (let i = 0; i < seriesCount; i++) {
      if (chunkOffset[i + 1]! > chunkOffset[i]!) this.seriesWithRows += 1;
    }
  }

  /** In the order of their names. */
  get names(): readonly string[] {
    return [...this.#names].sort();
  }

  get series(): number {
    return this.#series.samples + this.#series.windows;
  }

  seriesOf(kind: 'samples' | 'windows'): number {
    return this.#series[kind];
  }
}
