import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import { openReader } from '#engine/otlp/otlp_testing.ts';
import { decodeTags, tagValue } from '#lib/tags.ts';
import { freshFolder } from '../folder.ts';
import { fields, type Shape, writeBodies } from './data.ts';
import { formats } from './formats.ts';
import { tableOf } from './table.ts';

const shape: Shape = {
  hostCount: 5,
  scrapes: 130,
  endMillis: 1_700_000_400_000,
  seed: 1,
  scrapesOfBody: 200,
};

test('each format has the same samples, in bodies that are as they are told', () => {
  const ofFormats = [formats.influx, formats.carbon, formats.prometheus].map(({ bodyOf }) => {
    const folder = freshFolder('lines-test');
    try {
      const bodies = writeBodies(folder, shape, bodyOf);
      const lines = bodies.files.flatMap(({ path, bodyBytes }) => {
        const text = readFileSync(path);
        assert.equal(
          bodyBytes.reduce((sum, each) => sum + each, 0),
          text.length,
        );
        return text.toString().trimEnd().split('\n');
      });
      return { bodies, lines };
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
  type Sent = (typeof ofFormats)[0];
  const [influx, carbon, prometheus] = ofFormats as [Sent, Sent, Sent];
  assert.deepEqual(influx.bodies.sums, carbon.bodies.sums);
  assert.equal(influx.bodies.samples, 6500);
  assert.equal(carbon.lines.length, 6500);
  const expanded = influx.lines.flatMap((line) => {
    const [series, values, nanos] = line.split(' ') as [string, string, string];
    const path = series
      .split(',')
      .map((tag) => tag.slice(tag.indexOf('=') + 1).replaceAll('.', '_'))
      .join('.');
    return values.split(',').map((field) => {
      const [name, value] = field.split('=') as [string, string];
      return `${path}.${name} ${value.slice(0, -1)} ${nanos.slice(0, -9)}`;
    });
  });
  assert.deepEqual(expanded, carbon.lines);
  assert.deepEqual(prometheus.bodies.sums, influx.bodies.sums);
  assert.deepEqual(
    prometheus.lines.map((line) => {
      const [, name, labels, value, millis] = /^cpu_(\w+)\{(.*)\} (\d+) (\d+)$/.exec(line)!;
      const values = labels!.split(',').map((label) => label.split('"')[1]!.replaceAll('.', '_'));
      return `cpu.${values.join('.')}.${name} ${value} ${Number(millis) / 1_000}`;
    }),
    carbon.lines,
  );
  const sums = fields.map(() => 0);
  for (const [at, line] of carbon.lines.entries()) {
    sums[at % fields.length]! += Number(line.split(' ')[1]);
  }
  assert.deepEqual(sums, carbon.bodies.sums);
});

test('OTLP has a point for each of the same samples', () => {
  const folder = freshFolder('lines-test');
  try {
    const { files, samples, sums } = writeBodies(folder, shape, formats.otlp.bodyOf);
    const { decoder, reader } = openReader();
    const found = fields.map(() => 0);
    let rowCount = 0;
    for (const { path, bodyBytes } of files) {
      const bytes = readFileSync(path);
      let at = 0;
      for (const length of bodyBytes) {
        const part = reader.open(bytes.subarray(at, (at += length))).next();
        assert.ok(part !== null && part !== 'unchecked');
        rowCount += part.rows.rowCount;
        for (let row = 0; row < part.rows.rowCount; row++) {
          const tags = decodeTags(decoder.borrowTags(part.rows.slots[row]!));
          const name = tagValue(tags, '__name__')!;
          assert.equal(tags.length, 11);
          found[fields.findIndex((field) => name === `cpu_${field}`)]! += part.rows.values[row]!;
        }
      }
    }
    assert.equal(rowCount, samples);
    assert.deepEqual(found, sums);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('ours stands beside VictoriaMetrics', () => {
  const table = tableOf([
    {
      format: 'carbon',
      system: 'tsdb',
      cpuSecondsPerMillion: 1,
      samplesPerSecond: 500_000,
      peakMebibytes: 300,
    },
    {
      format: 'carbon',
      system: 'victoria',
      cpuSecondsPerMillion: 2,
      samplesPerSecond: 1e6,
      peakMebibytes: 100,
    },
  ]);
  assert.equal(
    table,
    `| format | system | CPU seconds a million samples | samples a second | peak MiB |
| --- | --- | --- | --- | --- |
| carbon | tsdb | 1.00 (0.50) | 500000 (0.50) | 300 (3.00) |
| carbon | victoria | 2.00 | 1000000 | 100 |`,
  );
});
