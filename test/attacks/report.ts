/** What a campaign of attacks saw: latencies of the others beside those without attacks, and a verdict. */
import { mebibytes, type Observation } from './arena.ts';
import { addMeasured, type Measured, noneMeasured } from './probe.ts';
import { rssBytesMax } from './victim.ts';

/** What a campaign holds the victim to. */
export const promised = { timesAloneMax: 3, queryMillisMax: 100 };

export interface Quantiles {
  readonly count: number;
  readonly p50Millis: number;
  readonly p99Millis: number;
  readonly maxMillis: number;
}

export function quantilesOf(millis: readonly number[]): Quantiles {
  const sorted = Float64Array.from(millis).sort();
  const at = (share: number): number =>
    sorted.length === 0
      ? 0
      : sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
  return { count: sorted.length, p50Millis: at(0.5), p99Millis: at(0.99), maxMillis: at(1) };
}

/** Observations of one attack, or of several at once, added up. */
interface Sum {
  rounds: number;
  readonly measured: Measured;
  rssMaxBytes: number;
  readonly problems: string[];
  answers: string;
}

function newSum(): Sum {
  return { rounds: 0, measured: noneMeasured(), rssMaxBytes: 0, problems: [], answers: '' };
}

function addObservation(sum: Sum, { measured, rssMaxBytes, problems, answers }: Observation): void {
  sum.rounds += 1;
  addMeasured(sum.measured, measured);
  sum.rssMaxBytes = Math.max(sum.rssMaxBytes, rssMaxBytes);
  sum.problems.push(...problems);
  sum.answers = answers.map(({ name, answers: told }) => `${name}: ${told}`).join('; ');
}

export interface Judged {
  readonly name: string;
  readonly query: Quantiles;
  readonly write: Quantiles;
  /** Which promises do not hold, none when all do. */
  readonly broken: readonly string[];
}

interface P99 {
  readonly query: number;
  readonly write: number;
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

export class CampaignReport {
  readonly #alone = newSum();
  /** p99 of each time without attacks: what the machine does by itself, and what attacks leave behind. */
  readonly #alonePeriods: P99[] = [];
  readonly #attacks = new Map<string, Sum>();
  readonly #all = newSum();

  noteAlone(observation: Observation): void {
    addObservation(this.#alone, observation);
    const { queryMillis, writeMillis } = observation.measured;
    this.#alonePeriods.push({
      query: quantilesOf(queryMillis).p99Millis,
      write: quantilesOf(writeMillis).p99Millis,
    });
  }

  /** @param name of the attack, or what stands for several at once */
  noteAttacked(name: string, observation: Observation): void {
    const sum = this.#attacks.get(name) ?? newSum();
    this.#attacks.set(name, sum);
    addObservation(sum, observation);
    const problems = observation.problems.map((problem) => `${name}: ${problem}`);
    addObservation(this.#all, { ...observation, problems });
  }

  /** One observation in a line. */
  lineOf(name: string, { measured, rssBeforeBytes, rssMaxBytes, problems }: Observation): string {
    const query = quantilesOf(measured.queryMillis);
    const write = quantilesOf(measured.writeMillis);
    const rss = `${mebibytes(rssBeforeBytes)} to ${mebibytes(rssMaxBytes)} MiB`;
    const state = problems.length === 0 ? '' : `, ${problems.length} problems`;
    return `${name}: query ${shown(query)}, write ${shown(write)}, resident ${rss}, refused ${measured.refused}${state}`;
  }

  judged(): readonly Judged[] {
    const alone = this.#aloneP99();
    return [...this.#attacks, ['all of it', this.#all] as const].map(([name, sum]) =>
      this.#judge(name, sum, alone),
    );
  }

  /** The median of the times alone: one that begins while an attack is still felt does not count. */
  #aloneP99(): P99 {
    return {
      query: medianOf(this.#alonePeriods.map(({ query }) => query)),
      write: medianOf(this.#alonePeriods.map(({ write }) => write)),
    };
  }

  /** @param seconds that the campaign took */
  told(seconds: number): { readonly lines: readonly string[]; readonly isGood: boolean } {
    const alone = this.#aloneP99();
    const lines = [
      `${(seconds / 60).toFixed(1)} minutes, ${this.#all.rounds} rounds of attacks, ${this.#alone.rounds} times alone`,
      'milliseconds of the others, p50 / p99 / max, and how many times p99 is that of alone:',
      row(['attack', 'rounds', 'query', '×', 'write', '×', 'MiB', 'refused', 'failed', '']),
      this.#rowOf(this.#judge('alone', this.#alone, null), this.#alone, alone),
    ];
    const judged = this.judged();
    for (const each of judged) {
      const sum = each.name === 'all of it' ? this.#all : this.#attacks.get(each.name)!;
      lines.push(this.#rowOf(each, sum, alone));
    }
    for (const what of ['query', 'write'] as const) {
      const each = this.#alonePeriods.map((period) => period[what].toFixed(1)).join(', ');
      lines.push(
        `p99 of the ${what} each time alone: ${each}; the median ${alone[what].toFixed(1)} ms`,
      );
    }
    for (const [name, { answers }] of this.#attacks) lines.push(`answers, ${name}: ${answers}`);
    const problems = [...this.#alone.problems, ...this.#all.problems];
    for (const problem of problems) lines.push(`PROBLEM ${problem}`);
    const broken = judged.filter((each) => each.broken.length > 0);
    for (const { name, broken: promises } of broken) {
      lines.push(`BROKEN ${name}: ${promises.join('; ')}`);
    }
    lines.push(
      `marker and acknowledged rows: ${problems.length === 0 ? 'whole' : 'see the problems'}; resident at most ${mebibytes(this.#all.rssMaxBytes)} of ${mebibytes(rssBytesMax)} MiB; ` +
        `${judged.length - broken.length} of ${judged.length} rows keep what is promised`,
    );
    const isWithinMemory = this.#all.rssMaxBytes <= rssBytesMax;
    return { lines, isGood: problems.length === 0 && broken.length === 0 && isWithinMemory };
  }

  #judge(name: string, { measured }: Sum, alone: P99 | null): Judged {
    const query = quantilesOf(measured.queryMillis);
    const write = quantilesOf(measured.writeMillis);
    const broken: string[] = [];
    const hold = (what: string, is: number, most: number): void => {
      if (is > most) broken.push(`p99 of the ${what} is ${is.toFixed(1)} of ${most.toFixed(1)} ms`);
    };
    if (alone !== null) {
      const { timesAloneMax, queryMillisMax } = promised;
      hold('query', query.p99Millis, Math.min(queryMillisMax, timesAloneMax * alone.query));
      hold('write', write.p99Millis, timesAloneMax * alone.write);
      if (measured.failed > 0) broken.push(`${measured.failed} requests of the others failed`);
    }
    return { name, query, write, broken };
  }

  #rowOf({ name, query, write, broken }: Judged, sum: Sum, alone: P99): string {
    const times = (is: Quantiles, of: number): string =>
      of === 0 ? '' : (is.p99Millis / of).toFixed(1);
    return row([
      name,
      String(sum.rounds),
      shown(query),
      times(query, alone.query),
      shown(write),
      times(write, alone.write),
      String(mebibytes(sum.rssMaxBytes)),
      String(sum.measured.refused),
      String(sum.measured.failed),
      broken.length + sum.problems.length === 0 ? '' : 'not kept',
    ]);
  }
}

function shown({ p50Millis, p99Millis, maxMillis }: Quantiles): string {
  return [p50Millis, p99Millis, maxMillis].map((millis) => millis.toFixed(1)).join(' / ');
}

const widths = [50, 6, 22, 6, 22, 6, 6, 7, 6, 0];

function row(cells: readonly string[]): string {
  return cells
    .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
    .join(' ');
}
