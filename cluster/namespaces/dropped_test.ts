import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addNamespace, advanceStaging } from './changes.ts';
import { droppedCompanion, withDroppedLongEnough } from './dropped.ts';
import { type NamespaceRegistry, registryOf } from './namespaces.ts';
import { namespaceOfAddRequest } from './request.ts';

const hour = 3_600_000_000_000n;
const now = 1_700_000_000_000_000_000n;

function registryWith(retention: object, resolution: string): NamespaceRegistry {
  const attributes = { resolutionDuration: resolution };
  const all = registryOf([
    namespaceOfAddRequest({
      name: 'samples',
      options: { flushEnabled: true, retentionOptions: retention },
    }),
    namespaceOfAddRequest({
      name: 'coarse',
      options: {
        retentionOptions: { retentionPeriodDuration: '9000h', blockSizeDuration: '240h' },
        aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
      },
    }),
  ]);
  return advanceStaging(all, 'samples', 'READY', now);
}

test('dropped rows are kept until windows of them are made, in blocks that hold their buffers', () => {
  const samples = (hours: number, block: string, past: string, future: string): object => ({
    retentionPeriodDuration: `${hours}h`,
    blockSizeDuration: block,
    bufferPastDuration: past,
    bufferFutureDuration: future,
  });
  const cases: readonly (readonly [object, string, bigint, bigint])[] = [
    [samples(48, '2h', '10m', '10m'), '5m', 72n, 2n],
    [samples(480, '12h', '3h', '10m'), '5m', 72n, 12n],
    [samples(480, '12h', '10m', '2h'), '5m', 72n, 12n],
    // A slice is due four days after its begin.
    [samples(960, '96h', '10m', '10m'), '5m', 144n, 2n],
    [samples(48, '2h', '10m', '10m'), '48h', 144n, 2n],
  ];
  for (const [retention, resolution, hours, blockHours] of cases) {
    const registry = registryWith(retention, resolution);
    const companion = droppedCompanion(registry);
    const { retentionPeriodNanos, blockSizeNanos } = companion.options.retentionOptions;
    assert.equal(retentionPeriodNanos / hour, hours, JSON.stringify(retention));
    assert.equal(blockSizeNanos / hour, blockHours, JSON.stringify(retention));
    assert.ok(addNamespace(registry, companion).has(companion.name), 'it can be made');
  }
});

test('dropped rows are kept for longer once windows come that need it, but for those that are gone', () => {
  const retention = {
    retentionPeriodDuration: '480h',
    blockSizeDuration: '2h',
    bufferPastDuration: '10m',
    bufferFutureDuration: '10m',
  };
  const registry = registryWith(retention, '5m');
  const companion = droppedCompanion(registry);
  const made = addNamespace(registry, companion);
  const ready = advanceStaging(made, companion.name, 'READY', now);
  assert.equal(withDroppedLongEnough(registry, now), registry);
  assert.equal(withDroppedLongEnough(ready, now), ready);
  const withCoarser = (of: NamespaceRegistry): NamespaceRegistry => {
    const attributes = { resolutionDuration: '168h' };
    const options = {
      flushEnabled: true,
      retentionOptions: { retentionPeriodDuration: '9000h', blockSizeDuration: '168h' },
      aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
    };
    return addNamespace(of, namespaceOfAddRequest({ name: 'weeks', options }));
  };
  const coarser = withCoarser(ready);
  assert.equal(withDroppedLongEnough(coarser, now), coarser, 'it is not ready yet');
  const longer = withDroppedLongEnough(advanceStaging(coarser, 'weeks', 'READY', now), now);
  const { options, goneBeforeNanos } = longer.get(companion.name)!;
  assert.equal(options.retentionOptions.retentionPeriodNanos, 3n * 168n * hour);
  assert.equal(
    options.retentionOptions.blockSizeNanos,
    companion.options.retentionOptions.blockSizeNanos,
  );
  // Three days were kept until then.
  assert.equal(goneBeforeNanos, now - 72n * hour);
  assert.equal(withDroppedLongEnough(longer, now + hour), longer);
});
