import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeTags } from '#lib/tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { fileHeaderBytes } from '../../persist/fileset/format.ts';
import { IndexView } from '../../persist/fileset/index.ts';
import { FilesetIndexWriter } from '../../persist/fileset/index_writer.ts';
import { Directory } from './directory.ts';

const noBytes = new Uint8Array(0);

interface Entry {
  readonly offset: number;
  readonly length: number;
  readonly checksum: number;
}

/** An index with so many series, and what it has of each. */
function indexOf(
  count: number,
  random: SeededRandom,
): { index: IndexView; steps: number; entries: Entry[] } {
  const writer = new FilesetIndexWriter();
  const entries: Entry[] = [];
  let offset = fileHeaderBytes;
  for (let i = 0; i < count; i += 1) {
    const tags = encodeTags([{ name: 'host', value: String(i).padStart(7, '0') }]);
    const [length, checksum] = [random.below(5) * 10, random.u32()];
    writer.add({ idScheme: idSchemeCode.quoted, tags, explicitId: noBytes }, length, checksum);
    entries.push({ offset, length, checksum });
    offset += length;
  }
  let steps = 0;
  const made = writer.finish(offset);
  let step = made.next();
  for (; step.done !== true; step = made.next()) steps += 1;
  return { index: new IndexView(step.value.slice(), 'index'), steps, entries };
}

test('a directory has the series of this node by their slots, however many there are', () => {
  const random = new SeededRandom(7);
  for (const count of [0, 1, 300, 70_000]) {
    const { index, entries } = indexOf(count, random);
    // In no order, of all sizes, and each once.
    const slots = entries.map((_, i) => 4_294_967_291 - i * (count > 1_000 ? 60_013 : 3));
    for (let i = slots.length - 1; i > 0; i -= 1) {
      const other = random.below(i + 1);
      [slots[i], slots[other]] = [slots[other]!, slots[i]!];
    }
    const isKnown = entries.map(() => random.below(10) > 0);
    let asked = 0;
    const directory = inOneGo(
      Directory.inSteps(index, () => (isKnown[asked++]! ? slots[asked - 1]! : -1)),
    );
    assert.equal(asked, count);
    const wanted = entries
      .map((entry, i) => ({ slot: slots[i]!, ...entry, isThere: isKnown[i]! && entry.length > 0 }))
      .filter(({ isThere }) => isThere)
      .sort((a, b) => a.slot - b.slot);
    assert.equal(directory.unknown, isKnown.filter((known) => !known).length);
    assert.deepEqual(
      Array.from(directory.slots, (slot, i) => ({
        slot,
        offset: directory.offsets[i]!,
        length: directory.lengths[i]!,
        checksum: directory.checksums[i]!,
        isThere: true,
      })),
      wanted,
    );
  }
});

test('what takes long by the number of series is parted', () => {
  const { index, steps } = indexOf(100_000, new SeededRandom(3));
  // Each has a text of its own: they are numbered, and written, some thousands at a time.
  assert.ok(steps > 60, `an index was made in ${steps} steps`);
  const slots = Uint32Array.from({ length: index.seriesCount }, (_, i) => i);
  let at = 0;
  let stepsOfDirectory = 0;
  let longest = 0;
  let before = 0;
  for (const _ of Directory.inSteps(index, () => slots[at++]!)) {
    stepsOfDirectory += 1;
    longest = Math.max(longest, at - before);
    before = at;
  }
  assert.ok(stepsOfDirectory > 50, `a directory was made in ${stepsOfDirectory} steps`);
  assert.ok(longest <= 2_048, `${longest} series were looked for in one step`);
});
