import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseConfig } from '../config.ts';
import { parse, problemsOf } from '../config_testing.ts';

test('parseConfig() reads the file of an aggregator with and without its section', () => {
  const discovery =
    'discovery: {type: tsdb_cluster, tsdbCluster: {env: prod, zone: embedded, endpoints: [http://etcd:2379]}}';
  for (const text of [`${discovery}\n`, `aggregator:\n  ${discovery}\n`]) {
    const { aggregator, coordinator, db } = parse(text, {}, 'aggregator');
    assert.equal(coordinator, null);
    assert.equal(db, null);
    assert.deepEqual(aggregator!.listenAddress, { host: '0.0.0.0', port: 6000 });
    assert.deepEqual(aggregator!.httpListenAddress, { host: '0.0.0.0', port: 6001 });
    assert.deepEqual(aggregator!.metricsListenAddress, { host: '0.0.0.0', port: 6002 });
    assert.deepEqual(aggregator!.hostId, { resolver: 'hostname' });
    assert.equal(aggregator!.idScheme, 'quoted');
    assert.equal(aggregator!.nameValidation, 'legacy');
    assert.equal(aggregator!.client.writeConsistencyLevel, 'majority');
    assert.deepEqual(aggregator!.discovery, {
      type: 'tsdb_cluster',
      env: 'prod',
      zone: 'embedded',
      endpoints: ['http://etcd:2379'],
      tls: null,
    });
  }
  const utf8 = parse('tagOptions: {nameValidation: utf8}', {}, 'aggregator').aggregator!;
  assert.equal(utf8.nameValidation, 'utf8');
  assert.match(
    problemsOf(
      'aggregator: {tagOptions: {idScheme: legacy, nameValidation: utf8}}',
      {},
      'aggregator',
    )[0]!,
    /aggregator\.tagOptions\.nameValidation: must be legacy with the ID scheme legacy/,
  );
  assert.deepEqual(problemsOf('aggregator:\n  listenAdress: x\n', {}, 'aggregator'), [
    'file1.yml:2: aggregator.listenAdress: unknown key; did you mean listenAddress?',
  ]);
});

test("an aggregator's file may have M3's sections beside its own, and problems name their lines", () => {
  const text = (more = ''): string => `logging: {level: warn}
metrics: {prometheus: {listenAddress: "0.0.0.0:6102"}}
http: {listenAddress: "0.0.0.0:6101", readTimeout: 60s}
rawtcp: {listenAddress: "0.0.0.0:6100"}
kvClient: {etcd: {env: prod, zone: eu, service: m3aggregator, etcdClusters: [{endpoints: ["e:2379"]}]}}
runtimeOptions: {kvConfig: {environment: prod}}
aggregator: {hostID: {resolver: config, value: agg-1}, counterPrefix: "", entryTTL: 1h, client: {queueSize: 10}}
${more}`;
  const parsed = parseConfig([{ path: 'a.yml', text: text() }], 'aggregator', {});
  const { aggregator } = parsed;
  assert.equal(aggregator!.logging.level, 'warn');
  assert.deepEqual(aggregator!.discovery, {
    type: 'tsdb_cluster',
    env: 'prod',
    zone: 'eu',
    endpoints: ['e:2379'],
    tls: null,
  });
  const { listenAddress, httpListenAddress, metricsListenAddress } = aggregator!;
  assert.deepEqual(
    [listenAddress, httpListenAddress, metricsListenAddress].map(({ port }) => port),
    [6100, 6101, 6102],
  );
  assert.deepEqual(parsed.notes.toSorted(), [
    'a.yml:3: http.readTimeout has no effect here',
    'a.yml:6: runtimeOptions has no effect here',
    'a.yml:7: aggregator.client.queueSize has no effect here',
    'a.yml:7: aggregator.entryTTL has no effect here',
  ]);
  assert.throws(
    () => parseConfig([{ path: 'a.yml', text: text('other: 1') }], 'aggregator', {}),
    /a\.yml:8: other: unknown section/,
  );
  const bad = text().replace('counterPrefix: ""', 'counterPrefix: "x"');
  assert.throws(
    () => parseConfig([{ path: 'a.yml', text: bad }], 'aggregator', {}),
    /a\.yml:7: aggregator\.counterPrefix: not supported: prefixes of names/,
  );
});
