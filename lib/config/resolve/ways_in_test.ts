import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse, problemsOf } from '../config_testing.ts';

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

test("parseConfig() takes M3's settings of Graphite that ask for nothing, and refuses those that would change answers", () => {
  const of = (settings: string): string => `coordinator: {${settings}}\n`;
  for (const settings of [
    'carbon: {shiftTimeStart: 0s, shiftStepsEnd: 0, renderPartialStart: false}',
    'resultOptions: {keepNans: false}',
    'filter: {read: local_only, write: local_only, completeTags: local_only}',
  ]) {
    assert.ok(parse(of(settings)).coordinator);
  }
  for (const [settings, problem] of [
    ['carbon: {shiftTimeStart: 10s}', /shiftTimeStart: not supported: ranges of Graphite/],
    ['carbon: {renderSeriesAllNaNs: true}', /renderSeriesAllNaNs: not supported/],
    ['filter: {read: allow_all}', /filter: not supported/],
  ] as const) {
    assert.match(problemsOf(of(settings))[0]!, problem);
  }
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
