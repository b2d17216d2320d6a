import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configPathsOf } from './config.ts';
import { parse, problemsOf } from './config_testing.ts';

test('parseConfig() fills the defaults of the combined single node', () => {
  const { db, coordinator } = parse('coordinator: {}\ndb: {}\n');
  assert.deepEqual(db!.listenAddress, { host: '127.0.0.1', port: 9000 });
  assert.deepEqual(db!.httpClusterListenAddress, { host: '127.0.0.1', port: 9003 });
  assert.deepEqual(db!.hostId, { resolver: 'config', value: 'tsdb_local' });
  assert.equal(db!.discovery.type, 'tsdb_single_node');
  assert.deepEqual(db!.kvListenAddress, { host: '127.0.0.1', port: 2379 });
  assert.equal(db!.commitlog.sync, 'always');
  assert.deepEqual(coordinator!.listenAddress, { host: '127.0.0.1', port: 7201 });
  assert.deepEqual(coordinator!.metricsListenAddress, { host: '127.0.0.1', port: 7203 });
  assert.equal(coordinator!.idScheme, 'quoted');
  assert.equal(coordinator!.client.writeConsistencyLevel, 'majority');
});

test('a limit of no series is none given, as in M3', () => {
  const limitOf = (limits: string): number =>
    parse(`coordinator: {limits: {perQuery: ${limits}}}\n`).coordinator!.fetchedSeriesMax;
  assert.equal(limitOf('{maxFetchedSeries: 0}'), limitOf('{}'));
  assert.equal(limitOf('{}'), 100_000);
  assert.equal(limitOf('{maxFetchedSeries: 1000000000}'), 1_000_000_000);
});

test('parseConfig() takes a section with nothing below it as given', () => {
  const config = parse('db:\n');
  assert.equal(config.coordinator, null);
  assert.notEqual(config.db, null);
  const both = parse('db:\n  tick:\n  pooling:\ncoordinator:\n  tagOptions:\n');
  assert.equal(both.coordinator!.idScheme, 'quoted');
  assert.equal(both.db!.tickMinimumMillis, 10_000);
  assert.deepEqual(both.notes, []);
  assert.deepEqual(
    parse(['coordinator: {lookbackDuration: 1m}\n', 'coordinator:\n']).coordinator!.lookbackMillis,
    60_000,
  );
});

test('parseConfig() refuses an unknown key that has nothing behind it', () => {
  assert.deepEqual(problemsOf('db:\n  listenAdress:\n'), [
    'file1.yml:2: db.listenAdress: unknown key; did you mean listenAddress?',
  ]);
  assert.deepEqual(problemsOf('db: {commitlog: {synch: always, nothing: 1}}\n'), [
    'file1.yml:1: db.commitlog.synch: unknown key; did you mean sync?',
    'file1.yml:1: db.commitlog.nothing: unknown key',
  ]);
  assert.deepEqual(problemsOf('db:\nagregator:\n'), ['file1.yml:2: agregator: unknown section']);
});

test('parseConfig() takes names that every object has as keys like any other', () => {
  for (const key of ['__proto__', 'constructor', 'toString']) {
    for (const value of ['{filePathPrefix: /tmp}', '']) {
      const [problem] = problemsOf(`db: {filesystem: {${key}: ${value}}}`);
      assert.equal(problem, `file1.yml:1: db.filesystem.${key}: unknown key`);
    }
  }
});

test('parseConfig() gives the coordinator the session of db when its cluster names none', () => {
  const db = 'db: {client: {writeConsistencyLevel: all}}\n';
  for (const clusters of ['[]', '[{namespaces: []}]']) {
    const { coordinator } = parse(`coordinator: {clusters: ${clusters}}\n${db}`);
    assert.equal(coordinator!.client.writeConsistencyLevel, 'all');
  }
  const own = 'coordinator: {clusters: [{client: {writeTimeout: 2s}}]}\n';
  assert.equal(parse(own + db).coordinator!.client.writeConsistencyLevel, 'majority');
});

test('parseConfig() lists every problem with file, line, path, reason and value', () => {
  const problems = problemsOf(`coordinator:
  listenAddress: nowhere
  tagOptions:
    idScheme: qouted
  lookbackDuration: 5 minutes
  colour: red
db:
  commitlog:
    sync: sometimes
    flushEvery: -1s
    flushMaxBytes: many
  discovery:
    type: tsdb_cluster
  hostID:
    resolver: environment
extra: 1
`);
  assert.deepEqual([...problems].sort(), [
    'file1.yml:10: db.commitlog.flushEvery: must not be negative: "-1s"',
    'file1.yml:11: db.commitlog.flushMaxBytes: not a size such as 4096, "64MiB" or "2GiB": "many"',
    'file1.yml:12: db.discovery.tsdbCluster: is required by type tsdb_cluster, with its endpoints',
    'file1.yml:14: db.hostID.envVarName: is required by resolver environment',
    'file1.yml:16: extra: unknown section',
    'file1.yml:2: coordinator.listenAddress: not an address such as "0.0.0.0:7201": "nowhere"',
    'file1.yml:4: coordinator.tagOptions.idScheme: must be one of quoted, prepend_meta, legacy: "qouted"',
    'file1.yml:5: coordinator.lookbackDuration: not a duration such as "48h", "30m" or "10s": "5 minutes"',
    'file1.yml:6: coordinator.colour: unknown key',
    'file1.yml:9: db.commitlog.sync: must be one of always, interval: "sometimes"',
  ]);
});

test('parseConfig() names kind mistakes in words', () => {
  assert.deepEqual(problemsOf('db:\n  listenAddress: [1]\n  commitlog: 5\n'), [
    'file1.yml:2: db.listenAddress: must be text (put it in quotes): [1]',
    'file1.yml:3: db.commitlog: must be a mapping: 5',
  ]);
  assert.deepEqual(problemsOf('coordinator: {lookbackDuration: 300, memoryMax: []}\n'), [
    'file1.yml:1: coordinator.lookbackDuration: not a duration such as "48h", "30m" or "10s": 300',
    'file1.yml:1: coordinator.memoryMax: not a size such as 4096, "64MiB" or "2GiB": []',
  ]);
});

test('parseConfig() refuses features that are not there instead of ignoring them', () => {
  const problems = problemsOf(`coordinator:
  storeMetricsType: true
  writeForwarding: {promRemoteWrite: {retry: {forever: true}}}
db:
  tracing: {jaeger: {}}
`);
  assert.equal(problems.length, 3);
  for (const problem of problems) assert.match(problem, /not supported/);
});

test('parseConfig() refuses durations that no timer waits and look-backs that are no milliseconds', () => {
  const timeouts = (value: string): string =>
    `coordinator: {query: {timeout: ${value}}, clusters: [{client: {writeTimeout: ${value}, fetchTimeout: ${value}}}]}\n`;
  const at = 'file1.yml:1: coordinator';
  for (const [value, shown] of [
    ['0', '0'],
    ['0s', '"0s"'],
    ['999us', '"999us"'],
    ['2147483648ms', '"2147483648ms"'],
  ]) {
    const reason = `must be ≥ 1ms ≤ 596h31m23.647s: ${shown}`;
    assert.deepEqual([...problemsOf(timeouts(value!))].sort(), [
      `${at}.clusters.0.client.fetchTimeout: ${reason}`,
      `${at}.clusters.0.client.writeTimeout: ${reason}`,
      `${at}.query.timeout: ${reason}`,
    ]);
  }
  assert.equal(parse(timeouts('2147483647ms')).coordinator!.queryTimeoutMillis, 2 ** 31 - 1);
  const lookback = (value: string) => problemsOf(`coordinator: {lookbackDuration: ${value}}\n`);
  assert.deepEqual(lookback('0s'), [`${at}.lookbackDuration: must be ≥ 1ms: "0s"`]);
  assert.deepEqual(lookback('500us'), [`${at}.lookbackDuration: must be ≥ 1ms: "500us"`]);
  assert.deepEqual(lookback('1.0005s'), [
    `${at}.lookbackDuration: must be whole milliseconds: "1.0005s"`,
  ]);
});

test('parseConfig() refuses bodies of writes that the write decoder or the bytes in flight would refuse', () => {
  const limits = (text: string): string => `coordinator: {limits: {${text}}}\n`;
  const at = 'file1.yml:1: coordinator.limits';
  assert.deepEqual(problemsOf(limits('maxWriteBodyBytes: 64MiB')), [
    `${at}.maxWriteBodyBytes: must be ≥ 1 and ≤ 38MiB: "64MiB"`,
  ]);
  assert.deepEqual(problemsOf(limits('maxWriteBodyBytes: 2MiB, maxWriteBytesInFlight: 1MiB')), [
    `${at}.maxWriteBytesInFlight: must be at least maxWriteBodyBytes, 2MiB: "1MiB"`,
  ]);
  const { coordinator } = parse(limits('maxWriteBodyBytes: 2MiB, maxWriteBytesInFlight: 2MiB'));
  assert.equal(coordinator!.writeBytesInFlightMax, 2 ** 21);
});

test('parseConfig() refuses tags to force that force nothing, which would let everybody in', () => {
  for (const empty of ['{}', '{match: []}', '{match: [], strip: []}']) {
    assert.match(
      problemsOf(`coordinator: {query: {restrictTags: ${empty}}}`)[0]!,
      /coordinator\.query\.restrictTags: forces nothing, without match and strip/,
      empty,
    );
  }
  const stripped = parse('coordinator: {query: {restrictTags: {strip: [a]}}}');
  assert.deepEqual(stripped.coordinator!.restrictTags, { match: [], strip: ['a'] });
  assert.deepEqual(parse('coordinator: {}').coordinator!.restrictTags, { match: [] });
});

test('parseConfig() takes names of any text, but not with IDs that are told by their names', () => {
  const utf8 = parse('coordinator: {tagOptions: {nameValidation: utf8}}');
  assert.equal(utf8.coordinator!.nameValidation, 'utf8');
  assert.equal(parse('coordinator: {}').coordinator!.nameValidation, 'legacy');
  assert.match(
    problemsOf('coordinator: {tagOptions: {idScheme: legacy, nameValidation: utf8}}')[0]!,
    /coordinator\.tagOptions\.nameValidation: must be legacy with the ID scheme legacy/,
  );
});

test('parseConfig() refuses half a TLS setting, which would be no TLS or no client certificate', () => {
  const tls = (value: string): string =>
    `db: {discovery: {type: tsdb_cluster, tsdbCluster: {endpoints: ["a:1"], tls: ${value}}}}\n`;
  const at = 'file1.yml:1: db.discovery.tsdbCluster.tls';
  assert.deepEqual(problemsOf(tls('{crtPath: a, keyPath: b}')), [`${at}.caCrtPath: is required`]);
  assert.deepEqual(problemsOf(tls('{caCrtPath: a, crtPath: b}')), [
    `${at}.keyPath: is required beside the other one`,
  ]);
  parse(tls('{caCrtPath: a}'));
});

test('parseConfig() notes settings of another mode of the process', () => {
  const cluster = 'discovery: {type: tsdb_cluster, tsdbCluster: {endpoints: ["a:1"]}}';
  const text = `coordinator: {logging: {level: warn}}
db:
  ${cluster}
  kv: {listenAddress: "127.0.0.1:1"}
  metrics: {prometheus: {listenAddress: "127.0.0.1:2"}}
`;
  assert.deepEqual([...parse(text).notes].sort(), [
    'file1.yml:1: coordinator.logging.level has no effect here: the process logs as db.logging says',
    'file1.yml:4: db.kv has no effect here: only discovery type tsdb_single_node embeds a key-value store',
    'file1.yml:5: db.metrics.prometheus.listenAddress has no effect here: metrics are served at coordinator.metrics',
  ]);
  assert.deepEqual(parse('coordinator: {}\ndb: {kv: {listenAddress: "127.0.0.1:1"}}\n').notes, []);
});

test('parseConfig() takes tuning of pools and notes that it has no effect', () => {
  const { notes } = parse('db:\n  gcPercentage: 100\n  pooling: {type: simple}\n');
  assert.deepEqual([...notes].sort(), [
    'file1.yml:2: db.gcPercentage has no effect here',
    'file1.yml:3: db.pooling has no effect here',
  ]);
});

test('parseConfig() merges later files over earlier ones and names the right file', () => {
  const first = 'db:\n  hostID: {resolver: config, value: a}\n  logging: {level: warn}\n';
  const { db } = parse([first, 'db:\n  hostID:\n    value: b\n']);
  assert.deepEqual(db!.hostId, { resolver: 'config', value: 'b' });
  assert.equal(db!.logging.level, 'warn');
  assert.deepEqual(problemsOf([first, '\ndb:\n  logging:\n    level: loud\n']), [
    'file2.yml:4: db.logging.level: must be one of debug, info, warn, error: "loud"',
  ]);
});

test('parseConfig() replaces lists of earlier files as a whole', () => {
  const discovery = (endpoints: string): string =>
    `db:\n  discovery: {type: tsdb_cluster, tsdbCluster: {endpoints: ${endpoints}}}\n`;
  const { db } = parse([discovery('["a:1", "b:1"]'), discovery('["c:1"]')]);
  assert.deepEqual(db!.discovery.type === 'tsdb_cluster' && db!.discovery.endpoints, ['c:1']);
});

test('parseConfig() expands variables with plain and quoted defaults, in flow and block form', () => {
  const text = `db:
  hostID: {resolver: config, value: \${HOST_ID:"tsdb local}"}}
  filesystem:
    filePathPrefix: \${FOLDER:/data}/tsdb
  limits: {writeNewSeriesPerSecond: \${RATE:250}}
  discovery:
    type: tsdb_cluster
    tsdbCluster:
      endpoints: \${ENDPOINTS:["e1:2379", "e2:2379"]}
  # a comment may mention \${ANYTHING}
`;
  assert.deepEqual(parse(text).db!.hostId, { resolver: 'config', value: 'tsdb local}' });
  const { db } = parse(text, { HOST_ID: 'n1', FOLDER: '/mnt', RATE: '7', ENDPOINTS: '["x:1"]' });
  assert.deepEqual(db!.hostId, { resolver: 'config', value: 'n1' });
  assert.equal(db!.dataDirectory, '/mnt/tsdb');
  assert.equal(db!.newSeriesPerSecondMax, 7);
  assert.deepEqual(db!.discovery.type === 'tsdb_cluster' && db!.discovery.endpoints, ['x:1']);
});

test('parseConfig() keeps an environment value from adding keys', () => {
  const { db } = parse('db:\n  hostID:\n    resolver: config\n    value: "${NAME}"\n', {
    NAME: 'a\n  gcPercentage: 5',
  });
  assert.deepEqual(db!.hostId, { resolver: 'config', value: 'a\n  gcPercentage: 5' });
});

test('parseConfig() names a variable that is not set', () => {
  assert.deepEqual(problemsOf('db:\n  hostID:\n    value: ${NOT_SET}\n'), [
    'file1.yml:3: environment variable NOT_SET is not set and has no default',
  ]);
});

test('parseConfig() reports broken YAML and keys that stand twice with their line', () => {
  assert.match(problemsOf('db:\n  a: [1\n')[0]!, /^file1\.yml:\d+: not YAML: /);
  assert.match(problemsOf('db: {}\ndb: {}\n')[0]!, /^file1\.yml:2: not YAML: /);
  assert.match(problemsOf('- db\n')[0]!, /^file1\.yml:1: must be a mapping/);
});

test('parseConfig() bounds what aliases can build', () => {
  const levels = Array.from(
    { length: 20 },
    (_, i) => `  a${i + 1}: &l${i + 1} [*l${i}, *l${i}, *l${i}]`,
  );
  const problems = problemsOf(`db:\n  a0: &l0 [x]\n${levels.join('\n')}\n`);
  assert.match(problems[0]!, /too deeply or too large/);
});

test('parseConfig() takes a coordinator file with its settings at the top', () => {
  const { coordinator, db } = parse(
    `listenAddress: 0.0.0.0:7777
clusters:
  - client:
      config:
        service:
          env: default_env
          zone: embedded
          service: tsdb
          etcdClusters: [{zone: embedded, endpoints: ["127.0.0.1:2379"]}]
      writeConsistencyLevel: all
`,
    {},
    'coordinator',
  );
  assert.equal(db, null);
  assert.equal(coordinator!.listenAddress.port, 7777);
  assert.equal(coordinator!.discovery.type, 'tsdb_cluster');
  assert.equal(coordinator!.client.writeConsistencyLevel, 'all');
  assert.deepEqual(problemsOf('listenAdress: x\n', {}, 'coordinator'), [
    'file1.yml:1: listenAdress: unknown key; did you mean listenAddress?',
  ]);
});

test('configPathsOf() takes -f any number of times and nothing else', () => {
  assert.deepEqual(configPathsOf(['-f', 'a.yml', '-f=b.yml']), ['a.yml', 'b.yml']);
  assert.throws(() => configPathsOf(['--port', '1']), /unknown argument: --port; usage: -f FILE/);
  assert.throws(() => configPathsOf(['-f']), /-f needs a file after it/);
});

test('parseConfig() takes a combined node as M3 users write it, and notes what has no effect', () => {
  const { db, coordinator, notes } = parse(`coordinator:
  listenAddress: {type: config, value: "0.0.0.0:7201"}
  local:
    namespaces:
      - {namespace: default, type: unaggregated, retention: 48h}
  logging: {level: info}
  metrics:
    scope: {prefix: coordinator}
    prometheus: {handlerPath: /metrics, listenAddress: "0.0.0.0:7203"}
    sanitization: prometheus
    samplingRate: 1.0
    extended: none
  limits: {maxComputedDatapoints: 10000}
  tagOptions: {idScheme: prepend_meta}
db:
  logging: {level: info}
  listenAddress: 0.0.0.0:9000
  hostID: {resolver: config, value: node-1}
  client:
    writeConsistencyLevel: majority
    readConsistencyLevel: unstrict_majority
    writeTimeout: 10s
    fetchTimeout: 15s
    connectTimeout: 20s
    writeRetry: {initialBackoff: 500ms, backoffFactor: 3, maxRetries: 2, jitter: true}
    backgroundHealthCheckFailLimit: 4
    hashing: {seed: 42}
  gcPercentage: 100
  writeNewSeriesAsync: true
  writeNewSeriesLimitPerSecond: 1048576
  writeNewSeriesBackoffDuration: 2ms
  bootstrap: {commitlog: {returnUnfulfilledForCorruptCommitLogFiles: false}}
  cache: {series: {policy: lru}}
  commitlog: {flushMaxBytes: 524288, flushEvery: 1s, queue: {calculationType: fixed, size: 2097152}}
  filesystem: {filePathPrefix: /var/lib/tsdb, writeBufferSize: 65536, throughputLimitMbps: 100.0}
  repair: {enabled: false, throttle: 2m, checkInterval: 1m}
  pooling: {blockAllocSize: 16}
  config:
    service:
      env: default_env
      zone: embedded
      service: tsdb
      cacheDir: /var/lib/kv
      etcdClusters: [{zone: embedded, endpoints: ["10.0.0.1:2379"]}]
`);
  assert.equal(coordinator!.idScheme, 'prepend_meta');
  assert.deepEqual(coordinator!.discovery, db!.discovery);
  assert.equal(db!.newSeriesPerSecondMax, 1_048_576);
  assert.ok(notes.some((note) => note.includes('db.client.writeRetry has no effect here')));
  assert.ok(notes.some((note) => note.includes('db.pooling has no effect here')));
  assert.ok(notes.some((note) => note.includes('db.config.service.cacheDir has no effect here')));
});
