import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makerOf, partsOf } from '../series/making_testing.ts';
import { newColumns, newSeries, type Series } from '../series/series.ts';
import { Zone } from '../time/zone.ts';
import { fetchResponse } from './carbonapi.ts';
import { csvBody, packedSeries, pickledSeries, rawBody, rickshawBody } from './formats.ts';
import { jsonBody } from './json.ts';
import { pointsOf } from './points.ts';

/** Each third row has no value. */
function seriesOf(name: string, rows: number): Series {
  const columns = newColumns(rows);
  for (let i = 0; i < rows; i++) {
    if (i % 3 === 2) continue;
    columns.values[i] = i / 2;
    columns.present[i] = 1;
  }
  return newSeries(name, 600, 600 + 60 * rows, 60, columns, 0);
}

const textOf = (parts: Iterable<Uint8Array>) => Buffer.concat([...parts]).toString();
const berlin = new Zone('Europe/Berlin');

test('formats that are texts have their rows as they always had', () => {
  const list = [seriesOf('a,b', 3), seriesOf('c', 1)];
  assert.equal(textOf(rawBody(list)), 'a,b,600,780,60|0,0.5,None\nc,600,660,60|0\n');
  assert.equal(
    textOf(csvBody(list, berlin)),
    [
      '"a,b",1970-01-01 01:10:00,0',
      '"a,b",1970-01-01 01:11:00,0.5',
      '"a,b",1970-01-01 01:12:00,',
      'c,1970-01-01 01:10:00,0',
      '',
    ].join('\r\n'),
  );
  assert.equal(
    textOf(rickshawBody(list, list)),
    '[{"target": "a,b", "datapoints": [{"x": 600, "y": 0}, {"x": 660, "y": 0.5}, {"x": 720, "y": null}]}, {"target": "c", "datapoints": [{"x": 600, "y": 0}]}]',
  );
  assert.equal(textOf(rickshawBody([], [])), '[]');
  assert.equal(textOf(rawBody([])), '');
});

test('a long series is written some thousand rows at a time in every format', () => {
  const rows = 100_000;
  const list = [seriesOf('long', rows)];
  const bodies = {
    raw: rawBody(list),
    csv: csvBody(list, berlin),
    rickshaw: rickshawBody(list, list),
    pickle: pickledSeries(list),
    msgpack: packedSeries(list),
    protobuf: fetchResponse(['long'], list),
  };
  for (const [format, body] of Object.entries(bodies)) {
    const parts = [...body].map(({ length }) => length);
    const bytes = parts.reduce((sum, length) => sum + length, 0);
    const longest = Math.max(...parts);
    assert.ok(bytes > 4 * rows, `${format}: ${bytes} bytes`);
    assert.ok(longest < 200_000, `${format}: one part has ${longest} bytes`);
  }
});

test('rows of nothing that is sent give way, too', async () => {
  const rows = 500_000;
  const columns = newColumns(rows);
  columns.present[rows - 1] = 1;
  const list = [newSeries('empty', 0, rows, 1, columns, 0)];
  const { work, pauses } = partsOf();
  const parts: Uint8Array[] = [];
  for await (const part of jsonBody(list, list, true, '', work)) parts.push(part);
  assert.deepEqual(JSON.parse(textOf(parts)), [
    { target: 'empty', tags: { name: 'empty' }, datapoints: [[0, rows - 1]] },
  ]);
  assert.ok(pauses() > 20, `${pauses()} pauses`);
});

test('points of a long series are put together in parts', async () => {
  const rows = 100_000;
  const list = [seriesOf('long', rows)];
  for (const pointsMax of [1, 2, 1000]) {
    const { work, pauses } = partsOf();
    const [points] = await pointsOf(list, pointsMax, makerOf(work));
    const { values, stepSeconds } = points!;
    assert.ok(values.length <= pointsMax && values.length > 0, `${values.length} points`);
    assert.ok(pauses() >= 3, `${pauses()} pauses`);
    const count = stepSeconds / 60;
    // Rows 3k and 3k + 1 have the halves of their numbers.
    if (pointsMax !== 1000) continue;
    const first = (points!.startSeconds - 600) / 60;
    let [sum, there] = [0, 0];
    for (let row = Math.max(0, first - 1); row < Math.max(0, first - 1) + count; row++) {
      if (row % 3 === 2) continue;
      sum += row / 2;
      there += 1;
    }
    assert.equal(values[0], sum / there);
  }
});
