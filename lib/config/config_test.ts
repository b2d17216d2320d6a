import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, configPathsOf, type ConfigRole, parseConfig } from './config.ts';

function parse(
  text: string | readonly string[],
  environment: Record<string, string> = {},
  role: ConfigRole = 'node',
): ReturnType<typeof parseConfig> {
  const texts = typeof text === 'string' ? [text] : text;
  const files = texts.map((one, index) => ({ path: `file${index + 1}.yml`, text: one }));
  return parseConfig(files, role, environment);
}

function problemsOf(...given: Parameters<typeof parse>): readonly string[] {
  try {
    parse(...given);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.problems;
  }
  assert.fail('the configuration was accepted');
}

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
    assert.equal(aggregator!.client.writeConsistencyLevel, 'majority');
    assert.deepEqual(aggregator!.discovery, {
      type: 'tsdb_cluster',
      env: 'prod',
      zone: 'embedded',
      endpoints: ['http://etcd:2379'],
      tls: null,
    });
  }
  assert.deepEqual(problemsOf('aggregator:\n  listenAdress: x\n', {}, 'aggregator'), [
    'file1.yml:2: aggregator.listenAdress: unknown key; did you mean listenAddress?',
  ]);
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

test('parseConfig() gives the coordinator the session of db when its cluster names none', () => {
  const db = 'db: {client: {writeConsistencyLevel: all}}\n';
  for (const clusters of ['[]', '[{namespaces: []}]']) {
    const { coordinator } = parse(`coordinator: {clusters: ${clusters}}\n${db}`);
    assert.equal(coordinator!.client.writeConsistencyLevel, 'all');
  }
  const own = 'coordinator: {clusters: [{client: {writeTimeout: 2s}}]}\n';
  assert.equal(parse(own + db).coordinator!.client.writeConsistencyLevel, 'majority');
});

test('parseConfig() refuses a tick that no timer can wait for', () => {
  assert.match(
    problemsOf('db: {tick: {minimumInterval: 600h}}\n')[0]!,
    /minimumInterval: .*"600h"/,
  );
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

test('parseConfig() passes on writes when there are targets', () => {
  const forwardingOf = (text: string) =>
    parse(`coordinator: {writeForwarding: {promRemoteWrite: ${text}}}`).coordinator!.forwarding;
  assert.equal(forwardingOf('{}'), null);
  assert.equal(forwardingOf('{targets: []}'), null);
  const url = 'http://m3:7201/api/v1/prom/remote/write';
  const given = `{maxConcurrency: 0, timeout: 5s, retry: {maxRetries: 3}, targets: [{url: "${url}", headers: {A: b}, noRetry: true, shadow: {percent: 0.25, hash: xxhash}}, {url: "${url}"}]}`;
  assert.deepEqual(forwardingOf(given), {
    requestsMax: 1_000,
    timeoutMillis: 5_000,
    backoff: { firstMillis: 2_000, factor: 2 },
    retriesMax: 3,
    targets: [
      { url, method: 'POST', headers: { A: 'b' }, retries: false, share: 0.25 },
      { url, method: 'POST', headers: {}, retries: true, share: null },
    ],
  });
  const target = (text: string) =>
    problemsOf(`coordinator: {writeForwarding: {promRemoteWrite: {targets: [${text}]}}}\n`);
  assert.match(target('{url: "m3:7201"}')[0]!, /targets\.0\.url: not an address/);
  assert.match(target(`{url: "${url}", shadow: {percent: 10}}`)[0]!, /percent/);
  assert.match(target(`{url: "${url}", shadow: {percent: 1, hash: murmur3}}`)[0]!, /not supported/);
});

test('parseConfig() has a listener of Carbon when the section is there', () => {
  const carbonOf = (text: string) => parse(`coordinator: ${text}`).coordinator!.carbon;
  assert.equal(carbonOf('{}'), null);
  assert.equal(carbonOf('{carbon: {}}'), null);
  assert.deepEqual(carbonOf('{carbon: {ingester: {}}}'), {
    listenAddress: { host: '127.0.0.1', port: 7204 },
    udpEnabled: false,
    pickleListenAddress: null,
    connectionsMax: 5000,
    cleansUp: false,
    rules: { ingester: undefined, storageSchemas: null, storageAggregation: null },
  });
  const given =
    '{listenAddress: "0.0.0.0:2003", udpEnabled: true, pickleListenAddress: "0.0.0.0:2004", rewrite: {cleanup: true}, rules: [{}], storageSchemas: a.conf, storageAggregation: b.conf}';
  assert.deepEqual(carbonOf(`{carbon: {ingester: ${given}}}`), {
    listenAddress: { host: '0.0.0.0', port: 2003 },
    udpEnabled: true,
    pickleListenAddress: { host: '0.0.0.0', port: 2004 },
    connectionsMax: 5000,
    cleansUp: true,
    rules: { ingester: [{}], storageSchemas: 'a.conf', storageAggregation: 'b.conf' },
  });
});

test('parseConfig() refuses settings of OTLP that contradict each other', () => {
  const otlpOf = (text: string) => parse(`coordinator: ${text}`).coordinator!.otlp;
  assert.deepEqual(otlpOf('{}'), {
    translationStrategy: 'UnderscoreEscapingWithSuffixes',
    promotedAttributes: new Set(),
    promotesAll: false,
    ignoredAttributes: new Set(),
    keepsIdentifying: false,
    promotesScope: false,
    convertsHistograms: false,
    storesDeltas: false,
    grpcListenAddress: null,
  });
  const given =
    '{tagOptions: {nameValidation: utf8}, otlp: {translationStrategy: NoTranslation, promoteResourceAttributes: [a], deltaTemporality: store, grpcListenAddress: "0.0.0.0:4317"}}';
  const { grpcListenAddress, promotedAttributes, storesDeltas } = otlpOf(given);
  assert.deepEqual(
    [grpcListenAddress, promotedAttributes, storesDeltas],
    [{ host: '0.0.0.0', port: 4317 }, new Set(['a']), true],
  );
  for (const [text, problem] of [
    [
      '{promoteAllResourceAttributes: true, promoteResourceAttributes: [a]}',
      /promoteResourceAttributes.*must be empty/,
    ],
    ['{ignoreResourceAttributes: [a]}', /ignoreResourceAttributes.*must be empty without/],
    [
      '{translationStrategy: NoTranslation}',
      /translationStrategy.*needs tagOptions.nameValidation utf8/,
    ],
    ['{deltaTemporality: add}', /deltaTemporality/],
  ] as const) {
    const problems = problemsOf(`coordinator: {otlp: ${text}}`);
    assert.equal(problems.length, 1, text);
    assert.match(problems[0]!, problem);
  }
});

test('parseConfig() takes the repair settings of M3, and refuses words that are none', () => {
  const repairOf = (text: string) => parse(text).db!.repair;
  assert.deepEqual(repairOf('db: {}'), {
    enabled: true,
    type: 'default',
    strategy: 'default',
    throttleMillis: 90_000,
    checkIntervalMillis: 60_000,
  });
  const given =
    'db: {repair: {enabled: false, type: only_compare, strategy: full_sweep, throttle: 2m, checkInterval: 30s}}';
  assert.deepEqual(repairOf(given), {
    enabled: false,
    type: 'only_compare',
    strategy: 'full_sweep',
    throttleMillis: 120_000,
    checkIntervalMillis: 30_000,
  });
  const [problem] = problemsOf('db:\n  repair: {type: always}\n');
  assert.match(problem!, /db\.repair\.type: .*only_compare.*always/);
  assert.match(problemsOf('db:\n  repair: {checkInterval: 0s}\n')[0]!, /checkInterval/);
});

test('parseConfig() refuses an order of bootstrap that would be ignored, and memory that no store can have', () => {
  assert.deepEqual(problemsOf('db:\n  bootstrap: {mode: prefer_peers}\n  memoryMax: 1024GiB\n'), [
    'file1.yml:2: db.bootstrap.mode: not supported: another order of bootstrap than default: "prefer_peers"',
    'file1.yml:3: db.memoryMax: must be ≥ 8MiB and ≤ 512GiB: "1024GiB"',
  ]);
  const { db } = parse('db: {bootstrap: {mode: default}, memoryMax: 1536MiB}\n');
  assert.equal(db!.memoryBytesMax, 1536 * 2 ** 20);
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

test('parseConfig() lets the environment override data folder and listen host', () => {
  const { db, coordinator } = parse(
    'coordinator: {}\ndb: {filesystem: {filePathPrefix: /a}, listenAddress: "0.0.0.0:9100"}\n',
    { TSDB_DATA_DIR: '/b', TSDB_LISTEN_HOST: '127.0.0.1' },
  );
  assert.equal(db!.dataDirectory, '/b');
  assert.deepEqual(db!.listenAddress, { host: '127.0.0.1', port: 9100 });
  assert.deepEqual(coordinator!.listenAddress, { host: '127.0.0.1', port: 7201 });
});

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

const inCluster = 'discovery: {type: tsdb_cluster, tsdbCluster: {endpoints: ["etcd:2379"]}}';

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

test('parseConfig() opens the port of profiles by its own setting alone', () => {
  const debug = (text: string, host = '') =>
    parse(`db: {filesystem: {filePathPrefix: /a}, ${text}}\n`, { TSDB_LISTEN_HOST: host }).db!
      .debugListenAddress.host;
  assert.equal(debug(''), '127.0.0.1');
  assert.equal(debug(inCluster), '127.0.0.1');
  assert.equal(debug('', '0.0.0.0'), '127.0.0.1');
  assert.equal(debug('debugListenAddress: "0.0.0.0:9004"'), '0.0.0.0');
  assert.equal(debug('debugListenAddress: "0.0.0.0:9004"', '127.0.0.1'), '0.0.0.0');
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

test('the data folder is that of TSDB_DATA_DIR, else of the file, else of TSDB_DATA_DIR_DEFAULT', () => {
  const folderOf = (file: string, environment: Record<string, string>) => {
    const { db } = parseConfig([{ path: 'x.yml', text: file }], 'node', environment);
    return [db!.dataDirectory, db!.dataDirectoryFrom];
  };
  const named = 'db: {filesystem: {filePathPrefix: /file}}';
  const variables = { TSDB_DATA_DIR: '/variable', TSDB_DATA_DIR_DEFAULT: '/instead' };
  const instead = { TSDB_DATA_DIR_DEFAULT: '/instead' };
  assert.deepEqual(folderOf(named, variables), ['/variable', 'TSDB_DATA_DIR']);
  assert.deepEqual(folderOf(named, instead), ['/file', 'db.filesystem.filePathPrefix']);
  assert.deepEqual(folderOf('db: {}', instead), ['/instead', 'TSDB_DATA_DIR_DEFAULT']);
  assert.deepEqual(folderOf('db: {}', {}), ['/var/lib/tsdb', 'default']);
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
