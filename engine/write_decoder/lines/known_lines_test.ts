import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeTags } from '#lib/tags.ts';
import { pickOf, randomOf } from '#test/sim/mutate.ts';
import { WriteDecoderKernel, writeDecoderMemoryBytesMin } from '../kernel.ts';
import { formatCarbon, formatInflux, formatPrometheus } from './layout.ts';

const times = { isLast: true, rowsMax: 16_384, unitNanos: 1n, nowNanos: 1n };

class Lines {
  readonly #kernel: WriteDecoderKernel;
  readonly #format: number;

  constructor(format: number, memoryBytes = writeDecoderMemoryBytesMin) {
    this.#kernel = new WriteDecoderKernel(randomOf(pickOf(1)), memoryBytes);
    this.#format = format;
  }

  /** The series of each row, as names and values of its tags, and its value. */
  read(...lines: readonly string[]): string[] {
    const kernel = this.#kernel;
    const text = Buffer.from(lines.join('\n'));
    assert.equal(kernel.lines([text], { format: this.#format, ...times }), text.length);
    return Array.from(kernel.rowSlots, (slot, row) => {
      const tags = decodeTags(kernel.tags(slot)).map(({ name, value }) => `${name}=${value}`);
      return `${tags.join()} ${kernel.rowValues[row]}`;
    });
  }
}

test('of fields of a line each is of its own host, however its series followed each other before', () => {
  const lines = new Lines(formatInflux);
  const expected = (host: string, field: string, value: number): string =>
    `__name__=m_${field},host=${host} ${value}`;
  for (const [a, b] of [
    [1, 2],
    [3, 4],
    [5, 6],
  ]) {
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(lines.read(`m,host=a x=${a},y=${b}`), [
        expected('a', 'x', a!),
        expected('a', 'y', b!),
      ]);
    }
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(lines.read(`m,host=a x=${a}`, `m,host=b y=${b}`), [
        expected('a', 'x', a!),
        expected('b', 'y', b!),
      ]);
    }
  }
});

test('tags in another order than before are those of the same series, and others of another one', () => {
  for (const [format, line] of [
    [formatInflux, (tags: readonly string[]) => `m,${tags.join()} x=1`],
    [
      formatPrometheus,
      (tags: readonly string[]) =>
        `m_x{${tags.map((tag) => tag.replace('=', '="')).join('",')}"} 1`,
    ],
  ] as const) {
    const lines = new Lines(format);
    const orders = [
      ['b=22', 'a=11', 'c=33'],
      ['c=33', 'b=22', 'a=11'],
      ['b=22', 'a=11', 'c=34'],
      ['b=22', 'a=21', 'c=33'],
      ['b=22', 'a=11'],
    ];
    for (let i = 0; i < 20; i++) {
      const tags = orders[i < 15 ? Math.floor(i / 3) : i - 15]!;
      const sorted = tags.toSorted().join();
      // Twice, so that the series is the one that followed before, too.
      assert.deepEqual(lines.read(line(tags), line(tags)), [
        `__name__=m_x,${sorted} 1`,
        `__name__=m_x,${sorted} 1`,
      ]);
    }
  }
});

test('a known series is known by all of its path', () => {
  const lines = new Lines(formatCarbon);
  for (let i = 0; i < 3; i++) {
    assert.deepEqual(lines.read('a.b 1 1', 'a.c 2 1', 'a.b;k=v 3 1'), [
      '__g0__=a,__g1__=b 1',
      '__g0__=a,__g1__=c 2',
      '__name__=a.b,k=v 3',
    ]);
  }
  assert.deepEqual(lines.read('a.b 1 1', 'a.d 2 1', 'a.bb 3 1'), [
    '__g0__=a,__g1__=b 1',
    '__g0__=a,__g1__=d 2',
    '__g0__=a,__g1__=bb 3',
  ]);
});

test('series of which others have got the places are others', () => {
  const lines = new Lines(formatInflux);
  const padding = 'x'.repeat(100);
  const pick = pickOf(2);
  for (let i = 0; i < 600; i++) {
    const first = pick(3) === 0 ? 100 * pick(10) : 100 * i;
    const hosts = Array.from({ length: 100 }, (_, at) => `${padding}${first + at}`);
    const rows = lines.read(...hosts.map((host) => `m,host=${host} x=1,y=2`));
    assert.deepEqual(
      rows,
      hosts.flatMap((host) => [`__name__=m_x,host=${host} 1`, `__name__=m_y,host=${host} 2`]),
    );
  }
});
