/** Blocks that promtool and Prometheus write themselves. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import {
  type Histogram,
  histogramOfValue,
  resetHint,
  staleHistogram,
} from '#engine/typed/histogram.ts';
import { customHistogramValues, histogramValues } from '#engine/typed/samples_testing.ts';
import { encodeRemoteWrite } from '#engine/write_decoder/remote_write_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { eventually, Program } from '#test/integration/process.ts';
import { freePorts } from '#test/ports.ts';
import { toolOrSkip } from '#test/tools.ts';
import { seriesIn } from './block_testing.ts';
import { prometheusSource } from './prometheus_source.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-real-blocks-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const promtool = toolOrSkip('promtool', 'its blocks are not read');
if (promtool !== null) {
  test('blocks of promtool have the rows of the text out of which they were made', async () => {
    const numbers = new SeededNumbers(11);
    const startMillis = 1_700_006_400_000;
    const wanted = new Map<string, [bigint, number][]>();
    const lines = ['# TYPE load gauge'];
    for (let series = 0; series < 300; series++) {
      const [host, cell] = [`h${series}`, series % 3 === 0 ? 'é "x"\\' : 'b'];
      const rows: [bigint, number][] = [];
      let value = numbers.fraction();
      for (let millis = startMillis + series; millis < startMillis + 9_000_000; ) {
        if (series % 4 > 0) value = series % 4 === 1 ? value + numbers.normal() : rows.length;
        if (numbers.below(200) === 0) value = [NaN, Infinity, -0, 1e-300][numbers.below(4)]!;
        rows.push([BigInt(millis) * 1_000_000n, value]);
        const text = Object.is(value, -0) ? '-0' : String(value).replace('Infinity', '+Inf');
        const cellText = cell.replaceAll(/["\\]/g, '\\$&');
        lines.push(
          `load{cell="${cellText}",host="${host}"} ${text} ${Math.floor(millis / 1000)}.${String(millis % 1000).padStart(3, '0')}`,
        );
        millis += 60_000 + numbers.below(30);
      }
      wanted.set(`load ${cell} ${host}`, rows);
    }
    writeFileSync(join(folder, 'load.om'), `${lines.join('\n')}\n# EOF\n`);
    const data = join(folder, 'promtool');
    const args = ['tsdb', 'create-blocks-from', 'openmetrics', join(folder, 'load.om'), data];
    execFileSync(promtool, args, { stdio: 'pipe' });
    const source = prometheusSource(data, realEnv.disk);
    const parts = await source.parts();
    assert.equal(parts.length, 2);
    assert.ok(parts[0]!.endNanos <= parts[1]!.startNanos);
    const read = new Map<string, [bigint, number][]>();
    for (const part of parts) {
      for await (const { tags, timestampNanos, values, histograms } of part.series(0)) {
        assert.deepEqual(histograms, []);
        const name = tags.map(({ value }) => value).join(' ');
        const rows = Array.from(timestampNanos, (nanos, row): [bigint, number] => {
          assert.ok(nanos >= part.startNanos && nanos < part.endNanos);
          return [nanos, values[row]!];
        });
        read.set(name, [...(read.get(name) ?? []), ...rows]);
      }
    }
    assert.equal(read.size, wanted.size);
    for (const [name, rows] of wanted) assert.deepEqual(read.get(name), rows, name);
    assert.deepEqual(source.notes, []);
  });
}

const prometheus = toolOrSkip('prometheus', 'its histograms are not read');
if (prometheus !== null) {
  test('a snapshot of Prometheus has the histograms that were written to it', async () => {
    const [port] = (await freePorts(1)) as [number];
    writeFileSync(join(folder, 'prometheus.yml'), 'global: {scrape_interval: 1h}\n');
    const data = join(folder, 'prometheus');
    const program = new Program('prometheus', folder, prometheus, [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${data}`,
      `--web.listen-address=127.0.0.1:${port}`,
      ...['--web.enable-remote-write-receiver', '--web.enable-admin-api'],
      '--enable-feature=native-histograms',
    ]);
    after(() => program.stop('SIGKILL'));
    program.start();
    const url = `http://127.0.0.1:${port}`;
    await eventually('Prometheus is ready', async () => (await fetch(`${url}/-/ready`)).ok);

    const numbers = new SeededNumbers(23);
    const now = Date.now();
    const shape = { perRow: 30, schema: 3 };
    const valuesOf: Readonly<Record<string, readonly Uint8Array[]>> = {
      counter: histogramValues(numbers, 200, shape),
      counter_restarted: [
        ...histogramValues(numbers, 70, shape),
        staleHistogram,
        ...histogramValues(numbers, 70, { perRow: 4, schema: 1 }),
      ],
      custom: customHistogramValues(numbers, 150),
      gauge: histogramValues(numbers, 150, { ...shape, isGauge: true }),
      scaled: histogramValues(numbers, 150, { ...shape, scale: 1 / 3 }),
    };
    const written = Object.entries(valuesOf).map(([name, values]) => ({
      tags: [{ name: '__name__', value: name }],
      samples:
        name === 'custom' ? [{ timestampMillis: now - 3_500_000, value: 0x7ff0000000000002n }] : [],
      histograms: values.map((value, row) => ({
        timestampMillis: now - 3_000_000 + 15_000 * row,
        histogram: histogramOfValue(value),
      })),
    }));
    for (const series of written) {
      const answer = await fetch(`${url}/api/v1/write`, {
        method: 'POST',
        headers: {
          'content-encoding': 'snappy',
          'content-type': 'application/x-protobuf',
          'x-prometheus-remote-write-version': '0.1.0',
        },
        body: encodeRemoteWrite([series]),
      });
      assert.ok(answer.ok, `${answer.status} ${await answer.text()}`);
    }
    const answer = await fetch(`${url}/api/v1/admin/tsdb/snapshot`, { method: 'POST' });
    const { data: snapshot } = (await answer.json()) as { data: { name: string } };
    await program.stop();

    const withoutReset = (histogram: Histogram) =>
      histogram.hint === resetHint.reset ? { ...histogram, hint: resetHint.unknown } : histogram;
    const source = prometheusSource(join(data, 'snapshots', snapshot.name), realEnv.disk);
    const read = (await seriesIn(source)).map(({ tags, floats, histograms }) => ({
      tags,
      floats,
      histograms: histograms.map(({ timestampNanos, histogram }) => ({
        timestampNanos,
        histogram: withoutReset(histogram),
      })),
    }));
    assert.deepEqual(
      read,
      written.map(({ tags, samples, histograms }) => ({
        tags,
        floats: samples.map(({ timestampMillis, value }) => [
          BigInt(timestampMillis) * 1_000_000n,
          value,
        ]),
        histograms: histograms.map(({ timestampMillis, histogram }) => ({
          timestampNanos: BigInt(timestampMillis) * 1_000_000n,
          histogram: withoutReset(histogram),
        })),
      })),
    );
    await assert.rejects(prometheusSource(data, realEnv.disk).parts(), {
      code: 'BAD_REQUEST',
      message: /the newest rows are in the write-ahead log/,
    });
  });
}
