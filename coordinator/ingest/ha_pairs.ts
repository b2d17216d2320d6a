/**
 * Bodies of pairs of Prometheus (docs/HA_PAIRS.md): rows of series with the labels of a cluster and of a replica are taken of one
 * replica of the cluster, without that label, and those of the others go nowhere. By series, of which it is remembered what
 * their rows are.
 */
import type { WriteDecoder, WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';
import type { CounterMetric } from '#lib/metrics.ts';
import { shownText, TsdbError } from '#lib/errors.ts';
import { decodeTags, encodeTags } from '#lib/tags.ts';
import { firstKind, type Renamed, RenamedSeries, type SeriesColumns } from './renamed_series.ts';
import type { BodyRows } from './writing/parts.ts';
import { pickedRows } from './writing/dropped_rows.ts';

/** What becomes of rows of a replica; `ask`: nobody knows before `elect`; `refused`: there are too many clusters. */
export type Decision = 'taken' | 'duplicate' | 'ask' | 'refused';

/** Which replica of each cluster is taken (../ha_pairs/elections.ts). */
export interface Elections {
  decide(cluster: string, replica: string): Decision;
  /**
   * Looks what stands, and takes over where that is due: `decide` knows it then.
   * @throws {TsdbError} UNAVAILABLE when the key-value store does not say
   */
  elect(cluster: string, replica: string, signal: AbortSignal): Promise<void>;
}

export interface PairLabels {
  readonly cluster: string;
  readonly replica: string;
}

/** Values of these labels that are longer make no pair. */
const valueLengthMax = 512;
/** Replicas that are remembered; then all begins anew, for names of processes come and go. */
const replicasMax = 10_000;
/** A body is looked at so often at most: each time something has become known. */
const looksMax = 8;

interface Replica {
  readonly cluster: string;
  readonly replica: string;
}

/** Rows of replicas that are not taken: they count as written. */
export interface Duplicates {
  readonly samples: number;
  readonly histograms: number;
  readonly exemplars: number;
}

export const noDuplicates: Duplicates = { samples: 0, histograms: 0, exemplars: 0 };

/** Rows of clusters of which there are too many. */
export interface RefusedRows {
  readonly samples: number;
  readonly histograms: number;
  /** What is wrong with them; '' for none. */
  readonly problem: string;
}

export const noneRefused: RefusedRows = { samples: 0, histograms: 0, problem: '' };

export interface TakenBody {
  readonly rows: WriteDecoderRows;
  readonly duplicates: Duplicates;
  readonly refused: RefusedRows;
}

/** Of one kind of rows. */
interface TakenRows<Rows> {
  readonly rows: Rows | null;
  readonly duplicates: number;
  readonly refused: number;
}

export class HaPairs {
  readonly #labels: PairLabels;
  readonly #elections: Elections;
  readonly #deduplicated: CounterMetric;
  readonly #replicas: Replica[] = [];
  readonly #placeOfReplica = new Map<string, number>();
  /** Those of pairs without the label of the replica; from `firstKind` on the place of the replica. */
  readonly #series: RenamedSeries;

  /** @param deduplicated label: cluster */
  constructor(
    labels: PairLabels,
    decoder: WriteDecoder,
    elections: Elections,
    deduplicated: CounterMetric,
  ) {
    this.#labels = labels;
    this.#series = new RenamedSeries(decoder, (canonical) => this.#pairOf(canonical));
    this.#elections = elections;
    this.#deduplicated = deduplicated;
  }

  /**
   * What of a body is taken; or, where nobody knows, an election, after which it is to be asked again.
   * @param decode reads the body; called again when its columns do not hold any more
   * @throws {TsdbError} UNAVAILABLE as an election fails
   */
  taken(decode: () => WriteDecoderRows, signal: AbortSignal): TakenBody | Promise<void> {
    if (this.#replicas.length > replicasMax) this.#forget();
    for (let look = 0; look < looksMax; look++) {
      const body = decode();
      const all = [body, body.histograms, body.exemplars].filter((columns) => columns !== null);
      const slots = this.#series.unknownOf(all);
      if (slots.size === 0) {
        const asked = this.#undecided(all);
        if (asked.length === 0) return this.#takenOf(body);
        // All at once: the body is read anew after it.
        return Promise.all(
          asked.map(({ cluster, replica }) => this.#elections.elect(cluster, replica, signal)),
        ).then(() => {});
      }
      this.#series.add(slots);
    }
    throw new TsdbError('RESOURCE_EXHAUSTED', 'there is no room for the series of this body');
  }

  /** Which replica a series is of, and its tags without that; null for one that is of none, or that is refused anyway. */
  #pairOf(canonical: Uint8Array): Renamed | null {
    const tags = decodeTags(canonical);
    const valueOf = (label: string): string => tags.find(({ name }) => name === label)?.value ?? '';
    const [cluster, replica] = [valueOf(this.#labels.cluster), valueOf(this.#labels.replica)];
    if (cluster === '' || replica === '') return null;
    if (Math.max(cluster.length, replica.length) > valueLengthMax) return null;
    const rest = tags.filter(({ name }) => name !== this.#labels.replica);
    return { kind: firstKind + this.#placeOf(cluster, replica), tags: encodeTags(rest) };
  }

  #placeOf(cluster: string, replica: string): number {
    const key = JSON.stringify([cluster, replica]);
    let place = this.#placeOfReplica.get(key);
    if (place === undefined) {
      place = this.#replicas.push({ cluster, replica }) - 1;
      this.#placeOfReplica.set(key, place);
    }
    return place;
  }

  /** Replicas of which nobody knows whether they are taken, one of each cluster. */
  #undecided(all: readonly SeriesColumns[]): Replica[] {
    const seen = new Set<number>();
    const undecided = new Map<string, Replica>();
    for (const { rowCount, slots } of all) {
      for (let row = 0; row < rowCount; row++) {
        const kind = this.#series.kindOf(slots[row]!);
        if (kind < firstKind || seen.has(kind)) continue;
        seen.add(kind);
        const replica = this.#replicas[kind - firstKind]!;
        const decision = this.#elections.decide(replica.cluster, replica.replica);
        if (decision === 'ask') undecided.set(replica.cluster, replica);
      }
    }
    return [...undecided.values()];
  }

  #takenOf(body: WriteDecoderRows): TakenBody {
    const { histograms, exemplars } = body;
    const decisions = new Map<number, Decision>();
    let problem = '';
    const decide = (kind: number): Decision => {
      let decision = decisions.get(kind);
      if (decision === undefined) {
        const { cluster, replica } = this.#replicas[kind - firstKind]!;
        decision = this.#elections.decide(cluster, replica);
        decisions.set(kind, decision);
        if (decision === 'refused') {
          problem ||= `more clusters of Prometheus than coordinator.haPairs.maxClusters: ${shownText(cluster)}`;
        }
      }
      return decision;
    };
    const samples = this.#takenRows(body, decide);
    const ofHistograms = this.#takenRows(histograms, decide);
    const ofExemplars = this.#takenRows(
      exemplars === null ? null : { ...exemplars, startNanos: null },
      decide,
    );
    return {
      rows: {
        ...body,
        ...samples.rows,
        histograms: ofHistograms.rows,
        exemplars: ofExemplars.rows,
      },
      duplicates: {
        samples: samples.duplicates,
        histograms: ofHistograms.duplicates,
        exemplars: ofExemplars.duplicates,
      },
      refused: { samples: samples.refused, histograms: ofHistograms.refused, problem },
    };
  }

  /** Rows that stay, of the series that they are then. */
  #takenRows<Rows extends SeriesColumns>(
    rows: Rows | null,
    decide: (kind: number) => Decision,
  ): TakenRows<Rows> {
    if (rows === null) return { rows, duplicates: 0, refused: 0 };
    const { rowCount } = rows;
    const { slots } = rows;
    const stay = new Uint32Array(rowCount);
    let stayCount = 0;
    let refused = 0;
    let isChanged = false;
    const duplicates = new Map<string, number>();
    for (let row = 0; row < rowCount; row++) {
      const kind = this.#series.kindOf(slots[row]!);
      if (kind >= firstKind) {
        isChanged = true;
        const decision = decide(kind);
        if (decision === 'refused') refused++;
        else if (decision !== 'taken') {
          const { cluster } = this.#replicas[kind - firstKind]!;
          duplicates.set(cluster, (duplicates.get(cluster) ?? 0) + 1);
        }
        if (decision !== 'taken') continue;
      }
      stay[stayCount++] = row;
    }
    if (!isChanged) return { rows, duplicates: 0, refused: 0 };
    for (const [cluster, count] of duplicates) this.#deduplicated.increase(count, { cluster });
    const renamed = this.#series.renamed(rows);
    const kept =
      stayCount === rowCount
        ? renamed
        : (pickedRows(
            renamed as unknown as BodyRows,
            stay.subarray(0, stayCount),
          ) as unknown as Rows);
    return { rows: kept, duplicates: rowCount - stayCount - refused, refused };
  }

  #forget(): void {
    this.#series.forget();
    this.#replicas.length = 0;
    this.#placeOfReplica.clear();
  }
}
