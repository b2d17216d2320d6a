/** What campaigns of formats of lines share. */
import assert from 'node:assert/strict';
import type { Pick } from '#test/sim/mutate.ts';
import type { LineOptions, WriteDecoderCore } from '../core.ts';

export function some<Item>(pick: Pick, items: readonly Item[]): Item {
  return items[pick(items.length)]!;
}

/** With some characters put in, taken out or changed. */
export function damaged(pick: Pick, text: string): string {
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

/** What a text came to, as words that two cores must agree on. */
export function outcomeOf(
  core: WriteDecoderCore,
  text: Uint8Array,
  options: LineOptions,
): string[] {
  const read = core.lines(text, options);
  core.judgePlain(false);
  const bits = new BigUint64Array(core.rowValues.slice().buffer);
  const times = core.rowTimestamps;
  const rows = Array.from(core.rowSlots, (slot, row) => {
    assert.equal(core.rowGenerations[row], core.generation[slot]);
    return `${core.idScheme[slot]} ${core.idHash[slot]} ${Buffer.from(core.tags(slot)).toString('latin1')} ${times[row]} ${bits[row]}`;
  });
  const { count, listed } = core.lineProblems;
  const problems = listed.map(({ lineAt, at, reason }) => `${lineAt} ${at} ${reason}`);
  return [`${read} ${core.timeUnitNanos} ${count}`, ...problems, ...rows];
}
