/** The kernel must read texts of Carbon's plaintext, whole, cut and damaged, as its twin does. */
import type { Pick } from '#test/sim/mutate.ts';
import { decimalText } from './decimal_testing.ts';
import { formatCarbon, formatCarbonCleanedUp } from './layout.ts';
import { fuzzLines, some } from './lines_testing.ts';

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
  const options = (pick: Pick) => ({
    format: pick(2) === 0 ? formatCarbon : formatCarbonCleanedUp,
    unitNanos: 1n,
    nowNanos: 1_700_000_000_123_000_000n,
  });
  fuzzLines({ name: 'Carbon lines', line, options }, seed, size);
}
