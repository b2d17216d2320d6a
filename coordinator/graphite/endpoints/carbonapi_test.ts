import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadProto } from '#lib/env/proto.ts';
import { fetchResponse, globResponse } from './carbonapi.ts';

/** As go-carbon and carbonapi define them. */
const definition = `syntax = "proto3";
package carbonapi_v2_pb;
message FetchResponse {
  string name = 1; int32 startTime = 2; int32 stopTime = 3; int32 stepTime = 4;
  repeated double values = 5; repeated bool isAbsent = 6;
}
message MultiFetchResponse { repeated FetchResponse metrics = 1; }
message GlobMatch { string path = 1; bool isLeaf = 2; }
message GlobResponse { string name = 1; repeated GlobMatch matches = 2; }
`;

function decoded(name: string, parts: Iterable<Uint8Array>): unknown {
  const folder = mkdtempSync(join(tmpdir(), 'carbonapi-'));
  try {
    writeFileSync(join(folder, 'x.proto'), definition);
    const schema = loadProto(join(folder, 'x.proto'));
    return schema.codec(`carbonapi_v2_pb.${name}`).decode(Buffer.concat([...parts]));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('series and paths are the messages of carbonapi', () => {
  const columns = { values: Float64Array.of(1.5, 9, -2), present: Uint8Array.of(1, 0, 1) };
  const points = { ...columns, startSeconds: 1_700_000_000, stepSeconds: 60 };
  const fetched = decoded('MultiFetchResponse', fetchResponse(['a.b', 'ü'], [points, points]));
  const series = {
    startTime: 1_700_000_000,
    stopTime: 1_700_000_180,
    stepTime: 60,
    values: [1.5, 0, -2],
    isAbsent: [false, true, false],
  };
  assert.deepEqual(fetched, {
    metrics: [
      { name: 'a.b', ...series },
      { name: 'ü', ...series },
    ],
  });
  const found = [
    { path: 'a.b', isLeaf: false },
    { path: 'a.c', isLeaf: true },
  ];
  assert.deepEqual(decoded('GlobResponse', globResponse('a.*', found)), {
    name: 'a.*',
    matches: found,
  });
});
