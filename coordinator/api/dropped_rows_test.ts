/** Rows that aggregation rules drop, through the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { encodeRemoteWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { applyRules, makeAggregated } from '../windows_testing.ts';

const writePath = '/api/v1/compat/remote/write';
const never = new AbortController().signal;

async function until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  for (let attempt = 0; attempt < 400; attempt++) {
    if (await isSo()) return;
    await realEnv.clock.sleep(25, never);
  }
  assert.fail(`not in time: ${what}`);
}

const rules = {
  mappingRules: [
    { name: 'noise', filter: 'env:dev', drop: true },
    {
      name: 'slow',
      filter: 'env:dev team:a',
      storagePolicies: [{ resolution: '5m', retention: '720h' }],
    },
  ],
};

const body = (millis: number): Uint8Array =>
  encodeRemoteWrite(
    ['prod', 'dev'].flatMap((env) =>
      ['a', 'b'].map((team) => ({
        tags: [
          { name: '__name__', value: 'requests' },
          { name: 'env', value: env },
          { name: 'team', value: team },
        ],
        samples: [{ timestampMillis: millis, value: 1 }],
      })),
    ),
  );

/** Series of a namespace that have a row of the time. */
const countOf = ({ node }: TestCoordinator, namespace: string, millis: number): number =>
  (node.namespaces.get(namespace) ?? []).filter(({ rows }) => rows.has(BigInt(millis) * 1_000_000n))
    .length;

let lastMillis = nowSeconds() * 1000;

/** Writes rows of other times until it is as it is to be. @returns the time of the last ones */
async function writeUntil(
  coordinator: TestCoordinator,
  what: string,
  isSo: (millis: number) => boolean,
): Promise<number> {
  let millis = lastMillis;
  await until(what, async () => {
    millis -= 1;
    const { status, text } = await coordinator.post(writePath, body(millis));
    assert.equal(status, 200, text);
    return isSo(millis);
  });
  return (lastMillis = millis);
}

test('what rules drop is kept aside where windows are made of it, and else not at all', async () => {
  await using coordinator = await TestCoordinator.openReady();
  await applyRules(coordinator, rules);
  // Until there is a namespace that their windows go to, rows stay with the others.
  const first = await writeUntil(
    coordinator,
    'rules are followed',
    (millis) => countOf(coordinator, 'default', millis) < 4,
  );
  assert.equal(countOf(coordinator, 'default', first), 3);
  const next = await writeUntil(coordinator, 'another body', () => true);
  assert.equal(countOf(coordinator, 'default', next), 3);
  assert.equal(coordinator.topology.view.namespaces.has('_dropped'), false);
  await makeAggregated(coordinator, 'slow', '5m', true);
  const millis = await writeUntil(
    coordinator,
    'they have a namespace of their own',
    (at) => countOf(coordinator, '_dropped', at) > 0,
  );
  assert.equal(countOf(coordinator, '_dropped', millis), 1);
  assert.equal(countOf(coordinator, 'default', millis), 2);
  const { options } = coordinator.topology.view.namespaces.get('_dropped')!;
  assert.equal(options.retentionOptions.retentionPeriodNanos, 72n * 3_600_000_000_000n);
  // Nobody reads it, nor writes into it by its name.
  const { json } = await coordinator.get(
    `/api/v1/query?query=count(requests)&time=${millis / 1000}`,
  );
  assert.equal(json.data.result[0].value[1], '2');
  const named = await coordinator.send(
    'POST',
    '/api/v1/json/write',
    JSON.stringify({ namespace: '_dropped', tags: { __name__: 'x' }, timestamp: 1, value: 1 }),
  );
  assert.ok(named.status >= 400, named.text);
  const { host, port } = coordinator.coordinator.metricsServer;
  const metrics = await (await fetch(`http://${host}:${port}/metrics`)).text();
  assert.match(metrics, /tsdb_coordinator_dropped_samples_total\{kept="windows"\} [1-9]/);
  assert.match(metrics, /tsdb_coordinator_dropped_samples_total\{kept="nothing"\} [1-9]/);
});

test('rows that are refused are named, whichever namespace they went to', async () => {
  await using coordinator = await TestCoordinator.openReady();
  await makeAggregated(coordinator, 'slow', '5m', true);
  await applyRules(coordinator, rules);
  const millis = await writeUntil(
    coordinator,
    'they have a namespace of their own',
    (at) => countOf(coordinator, '_dropped', at) > 0,
  );
  const refuse = (namespace: string): void => {
    coordinator.node.outcomeOf = (_, of) =>
      of === namespace ? rowOutcome.tooFarPast : rowOutcome.written;
  };
  refuse('_dropped');
  const aside = await coordinator.post(writePath, body(millis));
  assert.equal(aside.status, 400);
  assert.match(
    aside.text,
    /1 of 4 samples were refused, the others were written: .*env=\\?"dev\\?", team=\\?"a/,
  );
  refuse('default');
  const kept = await coordinator.post(writePath, body(millis));
  assert.match(kept.text, /2 of 4 samples were refused.*prod.*prod/);
  // Rows that were kept aside keep no others: a longer retention of theirs is none of these.
  const old = await coordinator.post(writePath, body((nowSeconds() - 60 * 3_600) * 1000));
  assert.match(old.text, /2 of 4 samples were refused.*prod.*prod/);
  coordinator.node.outcomeOf = (_, of) =>
    of === '_dropped' ? rowOutcome.resourceExhausted : rowOutcome.written;
  assert.equal((await coordinator.post(writePath, body(millis))).status, 503);
});

test('what is written as samples alone is kept, whatever rules drop', async () => {
  await using coordinator = await TestCoordinator.openReady();
  await makeAggregated(coordinator, 'slow', '5m', true);
  await applyRules(coordinator, rules);
  const millis =
    (await writeUntil(
      coordinator,
      'they have a namespace of their own',
      (at) => countOf(coordinator, '_dropped', at) > 0,
    )) - 1;
  for (const [at, header] of ['M3-Metrics-Type', 'TSDB-Metrics-Type'].entries()) {
    const written = await coordinator.post(writePath, body(millis - at), {
      [header]: 'unaggregated',
    });
    assert.equal(written.status, 200, written.text);
    assert.equal(countOf(coordinator, 'default', millis - at), 4);
    assert.equal(countOf(coordinator, '_dropped', millis - at), 0);
  }
  const unaggregated = { 'M3-Metrics-Type': 'unaggregated' };
  const query = `/api/v1/query?query=count(requests)&time=${millis / 1000}`;
  const { json } = await coordinator.get(query, unaggregated);
  assert.equal(json.data.result[0].value[1], '4');
  lastMillis = millis - 1;
  // By other formats, too, and for the one request that says it.
  const seconds = Math.floor(millis / 1000) - 1;
  const row = (name: string): string =>
    JSON.stringify({
      tags: { __name__: name, env: 'dev', team: 'b' },
      timestamp: seconds,
      value: 1,
    });
  for (const [at, [path, text]] of (
    [
      ['/api/v1/json/write', row('one')],
      ['/api/v1/json/write', `${row('line')}\n${row('line')}`],
      ['/api/v1/influxdb/write?precision=s', `influx,env=dev,team=b used=1 ${seconds}`],
      ['/api/v1/import/prometheus', `text{env="dev",team="b"} 1 ${seconds}000`],
    ] as const
  ).entries()) {
    const send = async (headers: Record<string, string>): Promise<number> => {
      const answer = await coordinator.post(path, Buffer.from(text), headers);
      assert.ok(answer.status < 300, answer.text);
      return countOf(coordinator, 'default', seconds * 1000);
    };
    assert.deepEqual([await send({}), await send(unaggregated)], [at, at + 1], path);
  }
});

test('what rules drop is kept for longer once a coarser resolution needs it', async () => {
  await using coordinator = await TestCoordinator.openReady();
  const create = { type: 'local', namespaceName: 'long', retentionTime: '240h' };
  await coordinator.post('/api/v1/database/create', create);
  const ready = await coordinator.post('/api/v1/services/tsdb/namespace/ready', { name: 'long' });
  assert.equal(ready.status, 200, ready.text);
  await makeAggregated(coordinator, 'slow', '5m', true);
  await applyRules(coordinator, rules);
  await writeUntil(
    coordinator,
    'they have a namespace of their own',
    (at) => countOf(coordinator, '_dropped', at) > 0,
  );
  const hours = (): bigint => {
    const { options } = coordinator.topology.view.namespaces.get('_dropped')!;
    return options.retentionOptions.retentionPeriodNanos / 3_600_000_000_000n;
  };
  assert.equal(hours(), 72n);
  await makeAggregated(coordinator, 'coarse', '48h', true);
  await until('they are kept for three of these windows', () => hours() === 144n);
});
