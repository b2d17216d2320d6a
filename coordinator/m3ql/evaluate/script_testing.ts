/** Scripts over a few series in memory, read as those of storage are; series in and out are lines of text. */
import { realEnv } from '#lib/env/real.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { metricNameTag, type Tag } from '#lib/tags.ts';
import { Turns } from '#lib/turns/turns.ts';
import { MemoryStorage } from '#test/conformance/promql/memory_storage.ts';
import type { FetchRequest } from '../../graphite/evaluate/context.ts';
import { SeriesReader } from '../../graphite/storage/reader.ts';
import { Zone } from '../../graphite/time/zone.ts';
import { Pacer } from '../../promql/rows/pacer.ts';
import { QueryResult } from '../../promql/engine.ts';
import { scriptReading } from '../storage/reading.ts';
import { gridInMillis, matrixOf } from './answer.ts';
import { evaluateScript, type ScriptGrid } from './evaluate.ts';

/** Noon. */
export const startSeconds = 1_704_110_400;
export const stepSeconds = 60;

const bitsOf = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]!;

class Storage extends MemoryStorage {
  readonly hidden: ReadonlySet<string> = new Set();

  selectThroughout(...[matchers, range]: Parameters<MemoryStorage['select']>) {
    return this.select(matchers, range);
  }
}

export interface ScriptRun {
  readonly lines: readonly string[];
  /** Of each time that something was read. */
  readonly asked: readonly (readonly FetchRequest[])[];
}

export class ScriptData {
  readonly #storage = new Storage();
  readonly #rowCount: number;

  /**
   * @param lines `name{tag="value"} 1 2 . 4`, or a path without braces; a value a minute, `.` is none. Those before a `|` are before
   *   the grid of scripts.
   */
  constructor(lines: readonly string[]) {
    let longest = 1;
    for (const line of lines) {
      const { tags, values, rowsBefore } = parsedLine(line);
      longest = Math.max(longest, values.length - rowsBefore);
      for (const [index, value] of values.entries()) {
        if (value === '.') continue;
        const seconds = startSeconds + (index - rowsBefore) * stepSeconds;
        this.#storage.add(tags, seconds * 1_000, bitsOf(Number(value)));
      }
    }
    this.#rowCount = longest;
  }

  async run(
    script: string,
    grid: ScriptGrid = { startSeconds, stepSeconds, rowCount: this.#rowCount },
    limits = { seriesMax: 1_000, rowsMax: 1_000_000 },
  ): Promise<ScriptRun> {
    const { signal } = new AbortController();
    const work = Turns.of(realEnv.clock).begin(signal);
    const pacer = new Pacer(work, limits.rowsMax, unlimitedReadBytes);
    const reader = new SeriesReader({
      storage: this.#storage,
      limits: { seriesMax: 0, requireExhaustive: false },
      pacer,
      reading: scriptReading(grid.stepSeconds, grid.stepSeconds * 1_000),
    });
    const asked: (readonly FetchRequest[])[] = [];
    const list = await evaluateScript(script, grid, {
      time: { nowSeconds: startSeconds + 86_400, zone: new Zone('UTC') },
      limits,
      work,
      random: () => 0.5,
      fetch: (requests, ofWork) => {
        asked.push(requests);
        return reader.fetch(requests, ofWork);
      },
      findEvents: null,
      variables: new Map(),
    });
    const matrix = await matrixOf(list, grid, pacer);
    const inMillis = gridInMillis(grid);
    const stats = {
      timings: { preparationMillis: 0, evaluationMillis: 0, sortMillis: 0 },
      samples: null,
      grid: inMillis,
      decodedSamples: 0,
      selectedSeries: 0,
      heldSamples: 0,
    };
    const value = { kind: 'matrix', grid: inMillis, matrix } as const;
    const lines = new QueryResult(value, [], [], true, stats).series().map(({ labels, points }) => {
      const row = new Array<string>(grid.rowCount).fill('.');
      for (const point of points) {
        const index = (point.timeMillis - inMillis.startMillis) / inMillis.stepMillis;
        row[index] = `${Number((point.value as number).toPrecision(6))}`;
      }
      return [shownLabels(labels.tags), ...row].join(' ');
    });
    return { lines, asked };
  }

  async lines(script: string): Promise<readonly string[]> {
    return (await this.run(script)).lines;
  }
}

interface ParsedLine {
  readonly tags: readonly Tag[];
  readonly values: readonly string[];
  readonly rowsBefore: number;
}

function parsedLine(line: string): ParsedLine {
  const [, name = '', braces, rest = ''] = /^([^{ ]+)(\{[^}]*\})? (.*)$/.exec(line)!;
  const words = rest.trim().split(/ +/);
  const rowsBefore = Math.max(0, words.indexOf('|'));
  const values = words.filter((word) => word !== '|');
  if (braces === undefined) {
    const nodes = name.split('.');
    return {
      tags: nodes.map((value, node) => ({ name: `__g${node}__`, value })),
      values,
      rowsBefore,
    };
  }
  const tags = [...braces.matchAll(/(\w+)="([^"]*)"/g)].map(([, tag, value]) => ({
    name: tag!,
    value: value!,
  }));
  return { tags: [{ name: metricNameTag, value: name }, ...tags], values, rowsBefore };
}

function shownLabels(tags: readonly Tag[]): string {
  const name = tags.find((tag) => tag.name === metricNameTag)?.value ?? '';
  const others = tags.filter((tag) => tag.name !== metricNameTag);
  return `${name}{${others.map((tag) => `${tag.name}="${tag.value}"`).join(',')}}`;
}
