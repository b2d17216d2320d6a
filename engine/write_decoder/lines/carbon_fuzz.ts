/** The kernel must read texts of Carbon's plaintext, whole, cut and damaged, as its twin does. */
import assert from 'node:assert/strict';
import { countInputs } from '#test/sim/counts.ts';
import { type Pick, pickOf, randomOf } from '#test/sim/mutate.ts';
import type { LineOptions } from '../core.ts';
import { WriteDecoderKernel, writeDecoderMemoryBytesMin } from '../kernel.ts';
import { WriteDecoderTwin } from '../write_decoder_twin.ts';
import { decimalText } from './decimal_testing.ts';
import { formatCarbon, formatCarbonCleanedUp } from './layout.ts';
import { damaged, outcomeOf, some } from './lines_testing.ts';

function node(pick: Pick): string {
  if (pick(5) > 0)
    return some(pick, ['servers', 'web1', 'cpu', 'load-1', 'a', '0', 'x'.repeat(pick(40))]);
  return some(pick, [
    '',
    '\u00c3\u00a4',
    '\xff',
    '$',
    '_$',
    'a=b',
    '{x}',
    'a:b#c',
    '"',
    '\\',
    ',',
    '\x7f',
  ]);
}

function path(pick: Pick): string {
  const count = pick(20) === 0 ? 10 + pick(8) : 1 + pick(5);
  const nodes = Array.from({ length: count }, () => node(pick)).join('.');
  const tags = [
    'host=web1',
    'name=x',
    'a-b=c',
    'a_b=d',
    'dc=',
    '=x',
    'host=\u00c3\u00a4',
    '0=1',
    'z',
    'A=b',
    '__name__=y',
  ];
  const tagged =
    pick(3) === 0 ? Array.from({ length: 1 + pick(4) }, () => `;${some(pick, tags)}`) : [];
  return nodes + some(pick, ['', '', '', '.', '..']) + tagged.join('');
}

function value(pick: Pick): string {
  if (pick(5) > 0) return decimalText(pick);
  return some(pick, [
    '',
    'nan',
    '-NaN',
    'inf',
    '+Inf',
    '-infinity',
    '+1',
    '+-1',
    '--1',
    '.',
    '1e',
    '0x10',
    'infinit',
    '1_0',
    '-',
    '1e400',
  ]);
}

function time(pick: Pick): string {
  const times = [
    '1700000000',
    '-1',
    '0',
    '1700000000.5',
    '1700000000.123456789123',
    '-1.0',
    '-5.25',
    '1.',
    '9223372035',
    '9223372037',
  ];
  if (pick(6) > 0) return some(pick, times);
  return some(pick, ['', 'x', '1e9', '-', '.5', '+1', '1700000000x', '18446744073709551616']);
}

function line(pick: Pick): string {
  if (pick(20) === 0) return some(pick, ['', ' ', '\r', '# no comment', '\t']);
  const space = some(pick, [' ', ' ', ' ', '\t', '  ']);
  const end = some(pick, ['', '', '', ' ', '\r', ' x']);
  return `${path(pick)}${space}${value(pick)}${space}${time(pick)}${end}`;
}

/** @param size number of texts */
export function fuzz(seed: number, size: number): void {
  const pick = pickOf(seed);
  const kernel = new WriteDecoderKernel(randomOf(pick), writeDecoderMemoryBytesMin);
  const twin = new WriteDecoderTwin();
  for (let i = 0; i < size; i++) {
    const lines = Array.from({ length: pick(12) }, () => line(pick));
    let text = lines.join('\n');
    if (pick(3) === 0) text = damaged(pick, text);
    const bytes = Buffer.from(text, 'latin1');
    countInputs('Carbon lines');
    const options: LineOptions = {
      format: pick(2) === 0 ? formatCarbon : formatCarbonCleanedUp,
      isLast: pick(3) > 0,
      rowsMax: pick(4) === 0 ? 1 + pick(5) : 1000,
      unitNanos: 1n,
      nowNanos: 1_700_000_000_123_000_000n,
    };
    const [ofKernel, ofTwin] = [kernel, twin].map((core) => outcomeOf(core, bytes, options));
    assert.deepEqual(ofKernel, ofTwin, `seed ${seed}, text ${i}: ${JSON.stringify(text)}`);
  }
}
