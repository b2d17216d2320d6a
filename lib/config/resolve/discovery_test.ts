import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse, problemsOf } from '../config_testing.ts';

test('parseConfig() reads discovery below db and below db.config alike', () => {
  for (const indent of ['', '  config:\n  ']) {
    const inner = `${indent}  discovery: {type: tsdb_cluster, tsdbCluster: {env: prod, endpoints: ["a:2379", "b:2379"]}}`;
    const { db, coordinator } = parse(`coordinator: {}\ndb:\n${inner}\n`);
    assert.deepEqual(db!.discovery, {
      type: 'tsdb_cluster',
      env: 'prod',
      zone: 'embedded',
      endpoints: ['a:2379', 'b:2379'],
      tls: null,
    });
    assert.deepEqual(coordinator!.discovery, db!.discovery, 'the coordinator inherits it');
    assert.deepEqual(db!.hostId, { resolver: 'hostname' }, 'host ID is the host name in a cluster');
  }
});

test('parseConfig() refuses two discoveries that differ', () => {
  const problems = problemsOf(`db:
  discovery: {type: tsdb_single_node}
  config:
    discovery: {type: tsdb_cluster, tsdbCluster: {endpoints: ["a:2379"]}}
`);
  assert.deepEqual(problems, [
    'file1.yml:4: db.config.discovery: contradicts the discovery that is given at another place',
  ]);
});

test('parseConfig() reads discovery below db.client.config too', () => {
  const client =
    '  client: {config: {service: {etcdClusters: [{endpoints: ["a:2379"]}]}}, writeTimeout: 2s}\n';
  const { db, coordinator } = parse(`coordinator: {}\ndb:\n${client}`);
  assert.equal(db!.discovery.type, 'tsdb_cluster');
  assert.deepEqual(coordinator!.discovery, db!.discovery);
  assert.deepEqual(problemsOf(`db:\n  discovery: {type: tsdb_single_node}\n${client}`), [
    'file1.yml:3: db.client.config.service: contradicts the discovery that is given at another place',
  ]);
});

test("M3's older way to say where the store is, for nodes, coordinators and aggregators", () => {
  const service = `service: {env: prod, zone: eu, service: tsdb, cacheDir: /x,
    etcdClusters: [{zone: eu, endpoints: ["http://etcd-0:2379", "http://etcd-1:2379"]}]}`;
  const store = {
    type: 'tsdb_cluster',
    env: 'prod',
    zone: 'eu',
    endpoints: ['http://etcd-0:2379', 'http://etcd-1:2379'],
    tls: null,
  };
  const node = parse(`db: {hostID: {value: a}, discovery: {config: {${service}}}}`);
  assert.deepEqual(node.db!.discovery, store);
  const listed = parse(`db: {hostID: {value: a}, discovery: {config: {services: [{${service}}]}}}`);
  assert.deepEqual(listed.db!.discovery, store);
  const seed = (hosts: string): string =>
    `db: {discovery: {config: {${service}, seedNodes: {initialCluster: [${hosts}]}}}}`;
  const single = parse(seed('{hostID: tsdb_local, endpoint: "http://127.0.0.1:2380"}'));
  assert.deepEqual(single.db!.discovery, { type: 'tsdb_single_node', env: 'prod', zone: 'eu' });
  const host = '{hostID: a, endpoint: "http://a:2380"}';
  assert.throws(() => parse(seed(`${host}, ${host}`)), /seed nodes that are several/);
  assert.throws(() => parse('db: {discovery: {config: {}}}'), /must name one key-value store/);
  assert.throws(
    () => parse(`db: {discovery: {type: tsdb_cluster, config: {${service}}}}`),
    /has no meaning beside config/,
  );
  assert.throws(() => parse('db: {discovery: {config: {static: {}}}}'), /a static topology/);
});
