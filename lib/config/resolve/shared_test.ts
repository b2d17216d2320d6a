import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inCluster, parse, problemsOf } from '../config_testing.ts';

/** Hosts of all addresses of a configuration, each once. */
function hostsOf({ db, coordinator }: ReturnType<typeof parse>): string[] {
  const addresses = [
    db?.listenAddress,
    db?.clusterListenAddress,
    db?.httpNodeListenAddress,
    db?.httpClusterListenAddress,
    coordinator?.listenAddress,
    coordinator?.metricsListenAddress,
  ];
  return [...new Set(addresses.flatMap((address) => address?.host ?? []))];
}

test('parseConfig() has a single node listen for this machine, and a part of a cluster for all', () => {
  const single = 'discovery: {type: tsdb_single_node}';
  assert.deepEqual(hostsOf(parse('coordinator: {}\ndb: {}\n')), ['127.0.0.1']);
  assert.deepEqual(hostsOf(parse(`db: {${single}}\n`)), ['127.0.0.1']);
  assert.deepEqual(hostsOf(parse(`coordinator: {}\ndb: {${inCluster}}\n`)), ['0.0.0.0']);
  // Without a cluster it takes the store that the single node of this machine embeds.
  assert.deepEqual(hostsOf(parse('coordinator: {}\n', {}, 'coordinator')), ['127.0.0.1']);
  const alone = parse(`coordinator: {${inCluster}}\n`, {}, 'coordinator');
  assert.deepEqual(hostsOf(alone), ['0.0.0.0']);
});

test('parseConfig() takes the address that a file names, or the host of the environment', () => {
  const named = parse(`coordinator:
  listenAddress: ":7201"
  metrics: {prometheus: {listenAddress: "10.0.0.1:7203"}}
db: {httpNodeListenAddress: "[::1]:9002"}
`);
  assert.equal(named.coordinator!.listenAddress.host, '0.0.0.0');
  assert.equal(named.coordinator!.metricsListenAddress.host, '10.0.0.1');
  assert.equal(named.db!.httpNodeListenAddress.host, '::1');
  assert.equal(named.db!.listenAddress.host, '127.0.0.1');
  const opened = parse('coordinator: {}\ndb: {}\n', { TSDB_LISTEN_HOST: '0.0.0.0' });
  assert.deepEqual(hostsOf(opened), ['0.0.0.0']);
});

test('parseConfig() reads the names by which browsers may call', () => {
  const hostsOfSections = ({ db, coordinator }: ReturnType<typeof parse>) => [
    db!.allowedHosts,
    coordinator!.allowedHosts,
  ];
  const none = parse('coordinator: {}\ndb: {}\n');
  assert.deepEqual(hostsOfSections(none), [null, null]);
  const both = parse('coordinator: {}\ndb: {allowedHosts: [tsdb, "*.Example.com", "*"]}\n');
  const names = ['tsdb', '*.Example.com', '*'];
  assert.deepEqual(hostsOfSections(both), [names, names]);
  const each = parse('coordinator: {allowedHosts: []}\ndb: {allowedHosts: [tsdb]}\n');
  assert.deepEqual(hostsOfSections(each), [['tsdb'], []]);
  for (const name of ['tsdb:7201', 'http://tsdb', 'a.*.b', '*b', '']) {
    assert.deepEqual(problemsOf(`db:\n  allowedHosts: ["${name}"]\n`), [
      `file1.yml:2: db.allowedHosts.0: not a host name without port, such as "tsdb" or "*.example.com": "${name}"`,
    ]);
  }
});
