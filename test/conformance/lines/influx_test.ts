/** Texts of Influx's line protocol with what its own Go decoder makes of them, or that it refuses them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WriteDecoderKernel } from '#engine/write_decoder/kernel.ts';
import { type InfluxLine, InfluxTwin } from '#engine/write_decoder/lines/influx_twin.ts';
import { LinesOfTwin, type TwinLine } from '#engine/write_decoder/lines/line_twin.ts';
import { formatInflux, tagTwice } from '#engine/write_decoder/lines/layout.ts';
import { options, random } from '#engine/write_decoder/write_decoder_testing.ts';
import { hasSuites, readSuite } from '../suites.ts';

interface ExpectedLine {
  readonly time: string;
  readonly name: string;
  readonly tags: readonly { readonly key: string; readonly value: string }[];
  readonly fields: readonly {
    readonly key: string;
    readonly value: {
      readonly string?: string;
      readonly int?: string;
      readonly uint?: string;
      readonly float?: number;
      readonly bool?: boolean;
    };
  }[];
}

interface Case {
  readonly id: string;
  readonly input: string | { readonly base64: string };
  readonly precision: string;
  readonly defaultTime: string;
  readonly expected?: readonly ExpectedLine[];
  readonly error?: string;
}

const suite = 'lines/influx.json';
const unitNanos: Record<string, bigint> = {
  '1ns': 1n,
  '1µs': 1_000n,
  '1us': 1_000n,
  '1ms': 1_000_000n,
  '1s': 1_000_000_000n,
};

if (hasSuites(suite)) {
  const { cases } = readSuite<{ cases: readonly Case[] }>(suite);

  test("lines are read and refused as Influx's decoder does", () => {
    assert.ok(cases.length >= 241, `${cases.length}`);
    let sameNames = 0;
    for (const { id, input, precision, defaultTime, expected } of cases) {
      const bytes =
        typeof input === 'string' ? Buffer.from(input) : Buffer.from(input.base64, 'base64');
      const unit = unitNanos[precision]!;
      const now = (BigInt(defaultTime) / unit) * unit;
      const text = bytes.toString('latin1');
      const twin = new LinesOfTwin(new InfluxTwin(text, true, unit, now), text, true);
      const lines: InfluxLine[] = [];
      let isRefused = false;
      let hasSameNames = false;
      for (let line = twin.next(); line !== null; line = twin.next()) {
        if (!('reason' in line)) lines.push(line as InfluxLine & TwinLine);
        // Where two names are one as they are written here alone.
        else if (line.reason === tagTwice && !hasKeyTwice(text)) hasSameNames = true;
        else isRefused = true;
      }
      if (hasSameNames && !isRefused) {
        sameNames += 1;
        continue;
      }
      assert.equal(isRefused, expected === undefined, `${id}: ${JSON.stringify(input)}`);
      if (expected !== undefined) {
        assert.deepEqual(
          lines.map((line) => shown(line, unit, now)),
          expected.map(plain),
          id,
        );
      }

      const kernel = new WriteDecoderKernel(random, options.memoryBytesMax);
      const lineOptions = {
        format: formatInflux,
        isLast: true,
        rowsMax: 1000,
        unitNanos: unit,
        nowNanos: now,
      };
      assert.equal(kernel.lines([bytes], lineOptions), bytes.length, id);
      assert.equal(kernel.lineProblems.count > 0, expected === undefined, id);
      const numbers = (expected ?? []).flatMap(({ time, fields }) =>
        fields
          .filter(({ value }) => value.string === undefined)
          .map(({ value }) => `${time} ${numberOf(value)}`),
      );
      if (expected === undefined) continue;
      const times = kernel.rowTimestamps;
      const rows = Array.from(
        kernel.rowValues,
        (value, row) => `${times[row]! * BigInt(kernel.timeUnitNanos)} ${value}`,
      );
      assert.deepEqual(rows, numbers, id);
    }
    assert.ok(sameNames <= 1, `${sameNames}`);
  });
}

/** Of a text of one line. */
function hasKeyTwice(text: string): boolean {
  const keys = [...text.split(' ')[0]!.matchAll(/,([^=,]+)=/g)].map(([, key]) => key);
  return new Set(keys).size < keys.length;
}

function numberOf({ float, int, uint, bool }: ExpectedLine['fields'][number]['value']): number {
  return Number(float ?? int ?? uint ?? bool);
}

/** Bytes as the suite has them, which were UTF-8. */
function textOf(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString();
}

function plain({ time, name, tags, fields }: ExpectedLine): object {
  return {
    time,
    name,
    tags: [...tags].sort(byKey),
    fields: fields.map(({ key, value }) => [key, shape(value)]),
  };
}

const byKey = (a: { key: string }, b: { key: string }): number =>
  Buffer.compare(Buffer.from(a.key), Buffer.from(b.key));

function shape(value: ExpectedLine['fields'][number]['value']): unknown {
  return value.string === undefined ? value : 'text';
}

function shown(line: InfluxLine, unit: bigint, now: bigint): object {
  return {
    time: String(line.time === null ? now : line.time * unit),
    name: textOf(line.measurement),
    tags: line.tags
      .map(({ key, value }) => ({ key: textOf(key), value: textOf(value) }))
      .sort(byKey),
    fields: line.fields.map(({ key, value }) => [textOf(key), shapeOf(value)]),
  };
}

function shapeOf(value: InfluxLine['fields'][number]['value']): unknown {
  switch (value.kind) {
    case 'float':
      return { float: value.value };
    case 'boolean':
      return { bool: value.value };
    case 'text':
      return 'text';
    default:
      return { [value.kind]: String(value.value) };
  }
}
