/** What the command line shows of a cluster, and what M3's files ask of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completionScript } from '../completion.ts';
import { mappingOf } from '../file.ts';
import { queryTable } from '../query/table.ts';
import { requestOfFile } from './apply.ts';
import {
  namespacesTable,
  type PlacementAnswer,
  placementTable,
  rangesText,
  type RegistryAnswer,
  statusText,
  topologyTable,
} from './views.ts';

const shards = (state: string, ...ids: number[]) => ids.map((id) => ({ id, state, sourceId: '' }));

const placement: PlacementAnswer = {
  placement: {
    instances: {
      b: {
        id: 'b',
        isolationGroup: 'g2',
        zone: 'embedded',
        weight: 1,
        endpoint: 'b:9000',
        shardSetId: 0,
        shards: [...shards('INITIALIZING', 3), ...shards('AVAILABLE', 0, 1)],
      },
      a: {
        id: 'a',
        isolationGroup: 'g1',
        zone: 'embedded',
        weight: 10,
        endpoint: 'a:9000',
        shardSetId: 0,
        shards: shards('AVAILABLE', 0, 1, 2, 3),
      },
    },
    replicaFactor: 2,
    numShards: 4,
    isMirrored: false,
  },
  version: 7,
};

const registry = (status: string): RegistryAnswer => ({
  registry: {
    namespaces: {
      default: {
        retentionOptions: {
          retentionPeriodDuration: '48h0m0s',
          blockSizeDuration: '2h0m0s',
          bufferPastDuration: '10m0s',
        },
        coldWritesEnabled: true,
        repairEnabled: false,
        stagingState: { status },
        schemaOptions: null,
        aggregationOptions: { aggregations: [{ aggregated: false, attributes: null }] },
      },
    },
  },
});

const well = {
  bootstrapped: true,
  incarnation: 'x',
  bootCount: 3,
  placementVersion: 7,
  writesRefused: '',
  blocksLacking: 0,
  shardsLacking: [],
  blocksLost: 0,
  formatLevel: 1,
  formatLevelWritten: 1,
};

test('a placement is a table of instances and their shards', () => {
  assert.equal(
    placementTable(placement),
    `4 shards, 2 replicas, version 7
ID  GROUP  ENDPOINT  WEIGHT  AVAILABLE  INITIALIZING  LEAVING
a   g1     a:9000    10      4          0             0
b   g2     b:9000    1       2          1             0`,
  );
  assert.equal(
    topologyTable(placement),
    `ID  GROUP  STATE         SHARDS
a   g1     AVAILABLE     0-3
b   g2     AVAILABLE     0-1
b   g2     INITIALIZING  3`,
  );
  assert.equal(rangesText([5, 1, 2, 3, 9]), '1-3, 5, 9');
});

test('namespaces are told by what they hold, and for how long', () => {
  assert.equal(
    namespacesTable(registry('READY')),
    `NAME     STATE  HOLDS    RETENTION  BLOCK  BUFFER PAST  COLD WRITES  REPAIR
default  READY  samples  48h        2h     10m          on           off`,
  );
});

test('the status names what is not well', () => {
  const ready = registry('READY');
  const bad = statusText(
    placement,
    { a: well, b: { error: 'connection refused' } },
    registry('INITIALIZING'),
  );
  assert.equal(bad.isWell, false);
  assert.deepEqual(
    bad.text.split('\n').filter((line) => line.startsWith('!')),
    [
      '! b: 1 shards are on their way',
      '! b: connection refused',
      '! namespace default is not READY',
    ],
  );
  const lacking = { ...well, blocksLacking: 2, blocksLost: 1, writesRefused: 'disk is full' };
  const instances = { a: placement.placement.instances['a']! };
  const only = { ...placement, placement: { ...placement.placement, instances } };
  const doubt = statusText(only, { a: lacking }, ready);
  assert.match(
    doubt.text,
    /! a: it refuses writes: disk is full\n! a: 2 blocks may lack rows\n! a: rows of 1 blocks are lost$/,
  );
  const good = statusText(only, { a: well }, ready);
  assert.equal(good.isWell, true);
  assert.match(good.text, /^4 shards, .*\n.*\na .* yes .*\nall is well$/);
  assert.equal(statusText(null, {}, ready).isWell, false);
});

test("files of m3ctl are carried out at the coordinator's paths", () => {
  const of = (text: string) => requestOfFile(mappingOf('f.yml', text));
  assert.deepEqual(of('operation: init\nservice: m3db\nrequest: {num_shards: 64}'), {
    method: 'POST',
    path: '/api/v1/services/tsdb/placement/init',
    body: { num_shards: 64 },
    what: 'make the placement',
  });
  assert.equal(
    of('{"operation":"create","request":{"type":"local"}}').path,
    '/api/v1/database/create',
  );
  const added = of('operation: newNode\nservice: m3aggregator\nrequest: {instances: []}');
  assert.equal(added.path, '/api/v1/services/aggregator/placement');
  const replaced = of('operation: replaceNode\nrequest: {candidates: []}');
  assert.equal(replaced.path, '/api/v1/services/tsdb/placement/replace');
  for (const [text, message] of [
    ['operation: drop\nrequest: {}', /operation: none of create, init, newNode, replaceNode: drop/],
    [
      'operation: init\nservice: m3coordinator\nrequest: {}',
      /service: neither tsdb nor aggregator/,
    ],
    ['operation: init', /request: missing/],
    ['operation: init\nrequest: {}\nother: 1', /unknown key: other/],
    ['- a', /f\.yml/],
  ] as const) {
    assert.throws(() => of(text), message, text);
  }
});

test('answers of queries are a row for each value', () => {
  const metric = { __name__: 'up', job: 'a' };
  assert.equal(
    queryTable({
      data: {
        resultType: 'matrix',
        result: [
          {
            metric,
            values: [
              [60, '1'],
              [120.5, '0.5'],
            ],
          },
        ],
      },
      warnings: ['partial'],
    }),
    `SERIES        TIME                      VALUE
up{job="a"}   1970-01-01T00:01:00.000Z  1
up{job="a"}   1970-01-01T00:02:00.500Z  0.5
! partial`
      .replaceAll('up{job="a"}   ', 'up{job="a"}  ')
      .replace('SERIES        ', 'SERIES       '),
  );
  assert.match(
    queryTable({ data: { resultType: 'scalar', result: [1, '2'] } }),
    /^TIME +VALUE\n.* 2$/,
  );
  assert.equal(queryTable({ data: { resultType: 'vector', result: [] } }), 'no series');
});

test('shells complete commands of one and two words', () => {
  const commands = [
    ['status', 'tsdbctl status [-o json]'],
    ['placement get', 'tsdbctl placement get'],
    ['placement add', 'tsdbctl placement add FILE [--force]'],
  ] as const;
  const script = completionScript('bash', commands);
  assert.match(script, /words="status placement"/);
  assert.match(script, /placement\) words="get add" ;;/);
  assert.match(script, /"placement add"\) words="--force --help --version" ;;/);
  assert.match(script, /status" "\*\) words="--output --help --version" ;;/);
  assert.match(completionScript('zsh', commands), /bashcompinit/);
  assert.match(
    completionScript('fish', commands),
    /-n "__fish_seen_subcommand_from placement; and __fish_seen_subcommand_from add" -l force/,
  );
  assert.throws(() => completionScript('tcsh', []), /none of bash, zsh and fish: tcsh/);
});
