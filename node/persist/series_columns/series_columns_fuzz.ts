/** Columns of the series of a fileset beside a look at every series, and damaged ones: an error, never a wrong answer. */
import assert from 'node:assert/strict';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, encodeTags, sortTags, type Tags } from '#lib/tags.ts';
import { tellsItsTags } from '#lib/series_id/to_tags.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { matchesTags, randomQuery, randomTags } from '../../index/query_twin.ts';
import { ColumnsQuery } from './columns_query.ts';
import { SeriesColumnsCorrupt } from './format.ts';
import { type RangeSource, SeriesColumns } from './series_columns.ts';
import { SeriesColumnsWriter } from './writer.ts';

export interface WrittenSeries {
  readonly tags: Tags;
  readonly idScheme: number;
  readonly explicitId: string;
  readonly offset: number;
  readonly length: number;
  readonly checksum: number;
}

const indexCrc32c = 0x12345678;

export function fileOf(all: readonly WrittenSeries[]): Uint8Array {
  const writer = new SeriesColumnsWriter();
  for (const { tags, idScheme, explicitId, offset, length, checksum } of all) {
    const series = { tags: encodeTags(tags), idScheme, explicitId: Buffer.from(explicitId) };
    writer.add(series, offset, length, checksum);
  }
  const parts = [...writer.finish(indexCrc32c)].filter((part) => part !== undefined);
  return Buffer.concat(parts.map((part) => part.slice()));
}

export function sourceOf(bytes: Uint8Array): RangeSource & { readonly bytesRead: number } {
  const source = {
    size: bytes.length,
    bytesRead: 0,
    read: async (position: number, length: number) => {
      source.bytesRead += length;
      // Not at the beginning of its buffer, as pages are.
      const some = new Uint8Array(length + 3).subarray(3);
      some.set(bytes.subarray(position, position + length));
      return some.subarray(0, Math.max(0, Math.min(length, bytes.length - position)));
    },
  };
  return source;
}

export function someSeries(random: SeededRandom, count: number): WrittenSeries[] {
  const codes = random.below(2) === 0 ? [idSchemeCode.quoted] : Object.values(idSchemeCode);
  let offset = 16;
  return Array.from({ length: count }, (_, i) => {
    const idScheme = random.pick(codes);
    const length = random.below(5000);
    // Names that few have, too.
    const rare =
      random.below(4) === 0
        ? [{ name: `rare-${random.below(40)}`, value: `${random.below(3)}` }]
        : [];
    const one = {
      tags: sortTags([...randomTags(random), ...rare]),
      idScheme,
      explicitId: idScheme === idSchemeCode.explicit ? `id-${i}` : '',
      offset,
      length,
      checksum: random.u32(),
    };
    offset += length;
    return one;
  });
}

export async function fuzz(seed: number, size: number): Promise<void> {
  const random = new SeededRandom(seed);
  const all = someSeries(random, random.below(size));
  const columns = await SeriesColumns.open(sourceOf(fileOf(all)));
  assert.equal(columns.entryCount, all.length);
  assert.equal(columns.indexCrc32c, indexCrc32c);
  const wantedNames = new Set(all.flatMap(({ tags }) => tags.map(({ name }) => name)));
  assert.deepEqual(new Set(columns.names), wantedNames);
  for (let round = 0; round < 20; round++) {
    const query = randomQuery(random, 3);
    const found = await (await ColumnsQuery.of(query, turningOf())).entries(columns);
    assert.equal(found.length, Math.ceil(all.length / 32));
    const wanted = [...all.keys()].filter((entry) => matchesTags(all[entry]!.tags, query));
    const given = Array.from({ length: 32 * found.length }, (_, i) => i).filter(
      (i) => (found[i >>> 5]! & (1 << (i & 31))) !== 0,
    );
    assert.deepEqual(given, wanted, `seed ${seed}: ${JSON.stringify(query)}`);
  }
  for (const name of columns.names) {
    const column = (await columns.column(name))!;
    const some = Uint32Array.from({ length: Math.ceil(all.length / 32) }, () => random.u32());
    const seen = column.valuesOf(some);
    const given = [...seen.keys()].filter((number) => seen[number] === 1);
    const wanted = all.flatMap(({ tags }, entry) => {
      const isAsked = (some[entry >>> 5]! & (1 << (entry & 31))) !== 0;
      return isAsked ? tags.filter((tag) => tag.name === name).map(({ value }) => value) : [];
    });
    const values = given.map((number) => Buffer.from(column.value(number)).toString('utf8'));
    assert.deepEqual(new Set(values), new Set(wanted), `seed ${seed}: values of ${name}`);
  }
  const untold = [...all.keys()].filter((entry) => {
    const { tags, idScheme, explicitId } = all[entry]!;
    return !tellsItsTags({ tags: encodeTags(tags), idScheme, explicitId: Buffer.from(explicitId) });
  });
  assert.deepEqual([...(await columns.untold())], untold);
  const names = await columns.entryNames();
  const places = await columns.places();
  for (const [entry, { tags, idScheme, explicitId, offset, length, checksum }] of all.entries()) {
    const name = names.of(entry);
    assert.deepEqual(decodeTags(name.tags), tags);
    assert.equal(name.idScheme, idScheme);
    assert.equal(Buffer.from(name.explicitId).toString(), explicitId);
    assert.equal(places.offset(entry), offset);
    assert.equal(places.lengths[entry], length);
    assert.equal(places.checksums[entry], checksum);
  }
}

/** A bit that is not as it was written: said, or of nothing that is read. */
export async function fuzzDamage(seed: number, size: number): Promise<void> {
  const random = new SeededRandom(seed);
  const bytes = fileOf(someSeries(random, 1 + random.below(size)));
  const good = crc32c(bytes);
  const damaged = Uint8Array.from(
    bytes.subarray(0, random.below(4) === 0 ? random.below(bytes.length) : bytes.length),
  );
  if (damaged.length === bytes.length) damaged[random.below(bytes.length)]! ^= 1 << random.below(8);
  if (crc32c(damaged) === good) return;
  try {
    const columns = await SeriesColumns.open(sourceOf(damaged));
    for (const name of columns.names) await columns.column(name);
    await columns.entryNames();
    await columns.places();
    await columns.untold();
    // What is reserved in the header is not read.
    const differs = damaged.findIndex((byte, i) => byte !== bytes[i]);
    assert.ok(differs >= 12 && differs < 16, `seed ${seed}: damage at ${differs} is not said`);
  } catch (error) {
    if (!(error instanceof SeriesColumnsCorrupt)) throw error;
  }
}
