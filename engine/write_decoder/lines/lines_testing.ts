/** What campaigns of formats of lines share. */
import assert from 'node:assert/strict';
import { countInputs } from '#test/sim/counts.ts';
import { type Pick, pickOf, randomOf } from '#test/sim/mutate.ts';
import type { LineOptions, WriteDecoderCore } from '../core.ts';
import { WriteDecoderKernel, writeDecoderMemoryBytesMin } from '../kernel.ts';
import { WriteDecoderTwin } from '../write_decoder_twin.ts';

export function some<Item>(pick: Pick, items: readonly Item[]): Item {
  return items[pick(items.length)]!;
}

/** With some characters put in, taken out or changed. */
function damaged(pick: Pick, text: string): string {
  let changed = text;
  for (let changes = pick(4); changes > 0; changes--) {
    const at = pick(changed.length + 1);
    const put = some(pick, [
      '',
      ' ',
      ',',
      '=',
      '"',
      '\\',
      '\n',
      '\r',
      '\x00',
      '\x7f',
      'e',
      '1',
      '\xe2\x82\xac',
      '\xff',
    ]);
    changed = changed.slice(0, at) + put + changed.slice(at + pick(2));
  }
  return changed;
}

/** With another character in one place. */
function similar(pick: Pick, text: string): string {
  const at = pick(text.length + 1);
  return text.slice(0, at) + some(pick, 'ab1_,= "{}'.split('')) + text.slice(at + 1);
}

/**
 * Lines as they came before, of which some are a little different, left out, in other places or come from elsewhere: most series
 * follow each other as before.
 */
function again(pick: Pick, before: readonly string[], line: (pick: Pick) => string): string[] {
  const lines: string[] = [];
  for (const each of before) {
    const kind = pick(12);
    if (kind === 0) continue;
    if (kind === 1) lines.push(line(pick));
    if (kind === 2) lines.push(some(pick, before));
    if (kind === 3) lines.push(damaged(pick, each));
    else lines.push(kind < 7 ? similar(pick, each) : each);
  }
  return lines.slice(0, 20);
}

/** A format whose texts the kernel and the twin must read alike. */
export interface FuzzedFormat {
  /** Of what is counted. */
  readonly name: string;
  readonly line: (pick: Pick) => string;
  readonly options: (pick: Pick) => Omit<LineOptions, 'isLast' | 'rowsMax'>;
}

/** Texts of generated lines, whole, cut and damaged. @param also called with the kernel after each */
export function fuzzLines(
  { name, line, options: optionsOf }: FuzzedFormat,
  seed: number,
  size: number,
  also: (pick: Pick, kernel: WriteDecoderCore, where: string) => void = () => {},
): void {
  const pick = pickOf(seed);
  const kernel = new WriteDecoderKernel(
    randomOf(pick),
    writeDecoderMemoryBytesMin,
    false,
    some(pick, [1, 20, 100, 1 << 16]),
  );
  const twin = new WriteDecoderTwin();
  let lines: string[] = [];
  for (let i = 0; i < size; i++) {
    const areNew = lines.length === 0 || pick(4) === 0;
    lines = areNew ? Array.from({ length: pick(12) }, () => line(pick)) : again(pick, lines, line);
    let text = lines.join('\n');
    if (pick(3) === 0) text = damaged(pick, text);
    const bytes = Buffer.from(text, 'latin1');
    countInputs(name);
    const options: LineOptions = {
      ...optionsOf(pick),
      isLast: pick(3) > 0,
      rowsMax: pick(4) === 0 ? 1 + pick(5) : 1000,
    };
    const cut = pick(bytes.length + 1);
    const pieces = [bytes.subarray(0, cut), bytes.subarray(cut)];
    const [ofKernel, ofTwin] = [kernel, twin].map((core) => outcomeOf(core, pieces, options));
    const where = `seed ${seed}, text ${i}`;
    assert.deepEqual(ofKernel, ofTwin, `${where}: ${JSON.stringify(text)}`);
    also(pick, kernel, where);
  }
}

/** What a text came to, as words that two cores must agree on. */
function outcomeOf(
  core: WriteDecoderCore,
  pieces: readonly Uint8Array[],
  options: LineOptions,
): string[] {
  const read = core.lines(pieces, options);
  core.judgePlain(false);
  const bits = new BigUint64Array(core.rowValues.slice().buffer);
  const times = core.rowTimestamps;
  const rows = Array.from(core.rowSlots, (slot, row) => {
    assert.equal(core.rowGenerations[row], core.generation[slot]);
    return `${core.idScheme[slot]} ${core.idHash[slot]} ${Buffer.from(core.tags(slot)).toString('latin1')} ${times[row]} ${bits[row]}`;
  });
  const { count, listed } = core.lineProblems;
  const problems = listed.map(({ lineAt, at, reason }) => `${lineAt} ${at} ${reason}`);
  return [`${read} ${core.timeUnitNanos} ${count} ${core.lineFeeds}`, ...problems, ...rows];
}
