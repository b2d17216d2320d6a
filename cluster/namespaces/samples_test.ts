import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import { addNamespace, advanceStaging, deleteNamespace, updateNamespace } from './changes.ts';
import { type Namespace, type NamespaceRegistry, registryOf, rowsSinceOf } from './namespaces.ts';
import { namespaceOfAddRequest } from './request.ts';
import {
  type ReadSamples,
  readySamples,
  samplesSince,
  samplesParts,
  withoutPromises,
  withPromises,
} from './samples.ts';

const hour = 3_600_000_000_000n;
const minute = hour / 60n;
const now = 1_700_000_000_000_000_000n;

function namespaceOf(name: string, hours: number, more: object = {}): Namespace {
  return namespaceOfAddRequest({
    name,
    options: {
      flushEnabled: true,
      retentionOptions: {
        retentionPeriodDuration: `${hours}h`,
        blockSizeDuration: '2h',
        bufferFutureDuration: '10m',
        bufferPastDuration: '10m',
      },
      ...more,
    },
  });
}

const aggregated = {
  aggregationOptions: {
    aggregations: [{ aggregated: true, attributes: { resolutionDuration: '5m' } }],
  },
};

const sinceOf = (registry: NamespaceRegistry, name: string) =>
  registry.get(name)!.completeSinceNanos;

test('who is the first namespace of samples has every row, who comes later when all have heard of it', () => {
  let all = registryOf([
    namespaceOf('first', 24),
    namespaceOf('second', 48),
    namespaceOf('coarse', 480, aggregated),
  ]);
  for (const name of ['first', 'second']) all = advanceStaging(all, name, 'READY', now);
  assert.deepEqual(
    readySamples(all).map(({ name }) => name),
    ['first', 'second'],
  );
  assert.equal(sinceOf(all, 'first'), 0n);
  assert.equal(sinceOf(all, 'second'), undefined);
  const promised = withPromises(all, now);
  assert.equal(sinceOf(promised, 'first'), 0n);
  // Rows may lie ahead by ten minutes, and clocks two minutes apart.
  assert.equal(sinceOf(promised, 'second'), now + hour / 5n);
  assert.equal(withPromises(promised, now + 1n), promised);

  const restored = withoutPromises(promised);
  assert.equal(sinceOf(restored, 'first'), undefined);
  const alone = registryOf([promised.get('first')!, promised.get('coarse')!]);
  assert.equal(withoutPromises(alone), alone);
});

test('who was alone before there were promises has had every row', () => {
  const old = { ...namespaceOf('old', 24), number: 1 };
  const ready = { ...old.options, stagingStatus: 'READY' as const };
  const promised = withPromises(registryOf([{ ...old, options: ready }]), now);
  assert.equal(sinceOf(promised, 'old'), 0n);
});

test('windows are there since the samples that they can be made of, and a longer retention brings none back', () => {
  let all = registryOf([namespaceOf('raw', 24), namespaceOf('coarse', 480, aggregated)]);
  for (const name of ['raw', 'coarse']) all = advanceStaging(all, name, 'READY', now);
  // The first window that has all of its rows, with some time for doubt.
  const madeFrom = now - 24n * hour + 5n * minute + 2n * minute;
  assert.equal(sinceOf(all, 'coarse'), madeFrom);
  const update = {
    repairEnabled: null,
    retentionPeriodNanos: 960n * hour,
    runtimeOptions: null,
    aggregations: null,
    extendedOptions: null,
  };
  const later = updateNamespace(all, 'coarse', update, now + hour);
  assert.equal(sinceOf(later, 'coarse'), madeFrom);
  const muchLater = updateNamespace(all, 'coarse', update, now + 1_000n * hour);
  assert.equal(sinceOf(muchLater, 'coarse'), now + 520n * hour);
  // A restored store takes back what writers have promised, not what nodes have made.
  const two = advanceStaging(
    registryOf([...all.values(), namespaceOf('two', 48)]),
    'two',
    'READY',
    now,
  );
  const restored = withoutPromises(two);
  assert.equal(sinceOf(restored, 'raw'), undefined);
  assert.equal(sinceOf(restored, 'coarse'), madeFrom);
});

test('windows that would take longer to be made than samples are kept are refused', () => {
  const day = {
    ...aggregated,
    aggregationOptions: {
      aggregations: [{ aggregated: true, attributes: { resolutionDuration: '24h' } }],
    },
  };
  const all = registryOf([namespaceOf('raw', 24), namespaceOf('daily', 480, day)]);
  const withSamples = advanceStaging(all, 'raw', 'READY', now);
  assert.throws(
    () => advanceStaging(withSamples, 'daily', 'READY', now),
    /not kept for as long as it takes to make a window: 24h0m0s, 26h20m0s are needed/,
  );
  const longer = advanceStaging(
    registryOf([namespaceOf('raw', 48), namespaceOf('daily', 480, day)]),
    'raw',
    'READY',
    now,
  );
  const ready = advanceStaging(longer, 'daily', 'READY', now);
  assert.equal(sinceOf(ready, 'daily'), now - 24n * hour + 2n * minute);
  assert.throws(
    () => withRetention(ready, 'raw', 24),
    /cannot change the retention of namespace raw: namespace daily has windows .* 26h20m0s are needed/,
  );
  assert.equal(withRetention(ready, 'raw', 36).get('raw')!.name, 'raw');
});

test('windows that no fileset would keep, that expire before they are made, or that have no samples are refused', () => {
  const refused = (more: Namespace[], why: RegExp): void => {
    const all = registryOf(more);
    const ready = all.has('raw') ? advanceStaging(all, 'raw', 'READY', now) : all;
    assert.throws(() => advanceStaging(ready, 'coarse', 'READY', now), why);
  };
  const raw = namespaceOf('raw', 24);
  refused(
    [raw, namespaceOf('coarse', 480, { ...aggregated, flushEnabled: false })],
    /flushEnabled/,
  );
  assert.throws(
    () =>
      addNamespace(
        registryOf([raw]),
        namespaceOf('coarse', 480, { ...aggregated, flushEnabled: false }),
      ),
    /cannot add namespace coarse: it is aggregated, and flushEnabled is false/,
  );
  refused([namespaceOf('coarse', 480, aggregated)], /no namespace of samples is ready yet/);
  const coarse = namespaceOf('coarse', 480, aggregated);
  refused([namespaceOf('raw', 24, { flushEnabled: false }), coarse], /with flushEnabled is ready/);
  refused(
    [raw, namespaceOf('coarse', 2, aggregated)],
    /windows are not kept .* 2h25m0s are needed/,
  );
});

test('a namespace of samples that windows need is not deleted before these', () => {
  let all = registryOf([
    namespaceOf('long', 480),
    namespaceOf('short', 4),
    namespaceOf('coarse', 480, {
      aggregationOptions: {
        aggregations: [{ aggregated: true, attributes: { resolutionDuration: '2h' } }],
      },
    }),
  ]);
  for (const name of all.keys()) all = advanceStaging(all, name, 'READY', now);
  assert.throws(
    () => deleteNamespace(all, 'long', now),
    /cannot delete namespace long: namespace coarse has windows of its samples/,
  );
  assert.equal(deleteNamespace(all, 'short', now).size, 2);
  // All of them go, and what is left may be changed.
  const last = deleteNamespace(deleteNamespace(all, 'short', now), 'long', now);
  assert.equal(withRetention(last, 'coarse', 240).size, 1);
});

test('windows that could not be made before keep nobody from changes', () => {
  const daily = {
    aggregationOptions: {
      aggregations: [{ aggregated: true, attributes: { resolutionDuration: '24h' } }],
    },
  };
  let all = registryOf([
    namespaceOf('raw', 48),
    namespaceOf('daily', 480, daily),
    namespaceOf('other', 480),
    namespaceOf('idle', 48),
  ]);
  for (const name of ['raw', 'daily', 'other']) all = advanceStaging(all, name, 'READY', now);
  // As a registry of a release that did not look at it.
  const { options } = all.get('raw')!;
  const retentionOptions = { ...options.retentionOptions, retentionPeriodNanos: 12n * hour };
  const only = new Map(all).set('raw', {
    ...all.get('raw')!,
    options: { ...options, retentionOptions },
  });
  only.delete('other');
  assert.equal(deleteNamespace(only, 'idle', now).size, 2);
  assert.equal(withRetention(only, 'raw', 10).size, 3);
  assert.equal(withRetention(only, 'daily', 240).size, 3);
  // One that is enough is enough.
  assert.equal(withRetention(all, 'raw', 12).size, 4);
  assert.equal(deleteNamespace(all, 'raw', now).size, 3);
});

test('what was never ready has let nothing go', () => {
  const all = withRetention(registryOf([namespaceOf('raw', 48)]), 'raw', 480);
  const ready = advanceStaging(all, 'raw', 'READY', now);
  assert.equal(sinceOfSamples(ready, now), now - 480n * hour);
});

test('options that were taken by a release before keep nobody from changing others', () => {
  const attributes = { resolutionDuration: '5m' };
  const two = {
    aggregationOptions: {
      aggregations: [
        { aggregated: true, attributes },
        { aggregated: true, attributes },
      ],
    },
  };
  const old = namespaceOf('old', 48, two);
  assert.throws(() => addNamespace(new Map(), old), /has one resolution/);
  assert.equal(withRetention(registryOf([old]), 'old', 96).size, 1);
});

test('every row is there since one promises it, or since none of all has let any go', () => {
  const since = (...all: Kept[]) => samplesSince(all, 100n);
  assert.equal(since(), 100n);
  assert.equal(since(kept('a', 20n, 0n)), 80n);
  assert.equal(since(kept('a', 20n, 90n)), 80n, 'what there is it has');
  assert.equal(since({ ...kept('a', 60n, 0n), goneBeforeNanos: 80n }), 80n);
  assert.equal(since({ ...kept('a', 60n), goneBeforeNanos: 80n }, kept('b', 90n)), 80n);
  assert.equal(since({ ...kept('a', 60n), goneBeforeNanos: 80n }, kept('b', 90n, 70n)), 70n);
  assert.equal(since(kept('a', 20n, 0n), kept('b', 60n, 70n)), 70n);
  assert.equal(since(kept('a', 20n, 0n), kept('b', 60n, 97n)), 80n);
  assert.equal(since(kept('a', 20n), kept('b', 60n)), 80n);
});

test('a longer retention brings nothing back', () => {
  let all = advanceStaging(registryOf([namespaceOf('one', 24)]), 'one', 'READY', now);
  const lengthen = (hours: bigint, at: bigint) => {
    const update = {
      repairEnabled: null,
      retentionPeriodNanos: hours * hour,
      runtimeOptions: null,
      aggregations: null,
      extendedOptions: null,
    };
    all = updateNamespace(all, 'one', update, at);
    assert.equal(sinceOf(all, 'one'), 0n);
    return all.get('one')!.goneBeforeNanos;
  };
  assert.equal(lengthen(12n, now), undefined);
  assert.equal(lengthen(12n, now + hour), undefined);
  assert.equal(lengthen(48n, now), now - 12n * hour);
  assert.equal(lengthen(24n, now), now - 12n * hour);
  // The floor of before is the higher one.
  assert.equal(lengthen(100n, now), now - 12n * hour);
  assert.equal(lengthen(10n, now + 20n * hour), now - 12n * hour);
  assert.equal(lengthen(20n, now + 20n * hour), now + 10n * hour);
});

test('a longer retention hides no windows', () => {
  let all = registryOf([namespaceOf('raw', 48), namespaceOf('coarse', 480, aggregated)]);
  for (const name of all.keys()) all = advanceStaging(all, name, 'READY', now);
  assert.equal(sinceOfSamples(withRetention(all, 'raw', 168), now), now - 48n * hour);
  assert.equal(sinceOfSamples(withRetention(all, 'raw', 168), now + hour), now - 48n * hour);
});

test('rows that go with a namespace are not taken to be in those that stay', () => {
  let all = registryOf([namespaceOf('first', 48), namespaceOf('coarse', 480, aggregated)]);
  for (const name of all.keys()) all = advanceStaging(all, name, 'READY', now);
  const two = advanceStaging(addNamespace(all, namespaceOf('second', 168)), 'second', 'READY', now);
  const promise = now + hour / 5n;
  // Before all have heard of the second one, and after.
  const early = withPromises(deleteNamespace(two, 'first', now), now + hour);
  assert.equal(sinceOfSamples(early, now + 2n * hour), promise);
  const late = deleteNamespace(withPromises(two, now), 'first', now + hour);
  assert.equal(sinceOfSamples(late, now + 2n * hour), promise);
  // The first one has had every row.
  const other = deleteNamespace(withPromises(two, now), 'second', now + hour);
  assert.equal(sinceOfSamples(other, now + 2n * hour), now - 46n * hour);
});

test('a namespace that is made again has no rows of the one before', () => {
  let all = registryOf([namespaceOf('raw', 48), namespaceOf('coarse', 480, aggregated)]);
  for (const name of all.keys()) all = advanceStaging(all, name, 'READY', now);
  const without = deleteNamespace(all, 'raw', now + hour);
  const again = addNamespace(without, namespaceOf('raw', 48));
  const ready = advanceStaging(again, 'raw', 'READY', now + 2n * hour);
  assert.equal(sinceOfSamples(ready, now + 3n * hour), now + 2n * hour);
});

function withRetention(all: NamespaceRegistry, name: string, hours: number): NamespaceRegistry {
  const update = {
    repairEnabled: null,
    retentionPeriodNanos: BigInt(hours) * hour,
    runtimeOptions: null,
    aggregations: null,
    extendedOptions: null,
  };
  return updateNamespace(all, name, update, now);
}

/** Since when queries take samples for whole. */
function sinceOfSamples(all: NamespaceRegistry, nowNanos: bigint): bigint {
  const namespaces = readySamples(all).map((one) => ({
    retentionNanos: one.options.retentionOptions.retentionPeriodNanos,
    ...rowsSinceOf(one),
  }));
  return samplesSince(namespaces, nowNanos);
}

interface Kept extends ReadSamples {
  readonly name: string;
}

const kept = (name: string, retentionNanos: bigint, completeSinceNanos?: bigint): Kept => ({
  name,
  retentionNanos,
  ...(completeSinceNanos === undefined ? {} : { completeSinceNanos }),
});

test('one is read when it has all of the range, and those that have it between them otherwise', () => {
  const read = (namespaces: readonly Kept[], startNanos: bigint, endNanos = 100n) =>
    samplesParts(namespaces, { startNanos, endNanos }, 100n).map(
      ({ namespace, startNanos: from, endNanos: to }) => `${namespace.name} ${from}-${to}`,
    );
  const short = kept('short', 20n, 0n);
  const long = kept('long', 50n, 70n);
  assert.deepEqual(read([short], 10n), ['short 10-100']);
  assert.deepEqual(read([short, long], 80n), ['short 80-100']);
  // Long has all from 70 on; what is older may be in either.
  assert.deepEqual(read([short, long], 75n), ['long 75-100']);
  assert.deepEqual(read([short, long], 40n), ['long 40-100']);
  const rows = kept('rows', 60n);
  assert.deepEqual(read([rows, long], 40n), ['rows 40-70', 'long 40-100']);
  assert.deepEqual(read([rows, long], 40n, 60n), ['rows 40-60', 'long 40-60']);
  assert.deepEqual(read([rows, kept('new', 60n)], 90n), ['rows 90-100', 'new 90-100']);
  // Nobody has anything before 40: labels of all times are those of one.
  assert.deepEqual(read([kept('all', 60n, 0n), short], -(2n ** 63n)), [`all ${-(2n ** 63n)}-100`]);
});

test('whatever promises and retentions are, no row is left out that any has', () => {
  const random = new SeededRandom(1);
  for (let round = 0; round < 2_000; round++) {
    const namespaces = Array.from({ length: 1 + random.below(4) }, (_, i) =>
      kept(
        `n${i}`,
        BigInt(1 + random.below(100)),
        ...(random.below(3) === 0 ? [] : [BigInt(random.below(110))]),
      ),
    );
    // Of each time who has its row: whoever has promised, and one at least.
    const holders = Array.from({ length: 100 }, (_, time) => {
      const must = namespaces.filter(
        ({ completeSinceNanos }) =>
          completeSinceNanos !== undefined && completeSinceNanos <= BigInt(time),
      );
      const may = namespaces.filter(() => random.below(2) === 0);
      const some = namespaces[random.below(namespaces.length)]!;
      return new Set([...must, ...may, some]);
    });
    const startNanos = BigInt(random.below(100));
    const endNanos = startNanos + BigInt(1 + random.below(100));
    const parts = samplesParts(namespaces, { startNanos, endNanos }, 100n);
    for (let time = startNanos; time < endNanos && time < 100n; time++) {
      const has = (one: Kept): boolean =>
        holders[Number(time)]!.has(one) && time >= 100n - one.retentionNanos;
      if (!namespaces.some(has)) continue;
      const isRead = parts.some(
        (part) => part.startNanos <= time && time < part.endNanos && has(part.namespace),
      );
      assert.ok(isRead, `round ${round}: time ${time} of ${startNanos}-${endNanos}`);
    }
  }
});
