/** The kernel must read texts of Prometheus' exposition format and of OpenMetrics, whole, cut and damaged, as its twin does. */
import type { Pick } from '#test/sim/mutate.ts';
import { decimalText } from './decimal_testing.ts';
import { formatOpenMetrics, formatPrometheus } from './layout.ts';
import { fuzzLines, some } from './lines_testing.ts';

const goodNames = ['http_requests_total', 'a', 'b', 'up', 'go:x', '_z', 'A9', 'le', '__name__'];

/** The text between quotes, mostly as it should be. */
function quoted(pick: Pick): string {
  if (pick(3) > 0) {
    return `"${some(pick, ['', 'x', 'eu-1', '+Inf', 'a b', '{}', 'x'.repeat(pick(60))])}"`;
  }
  const parts = [
    'a',
    'my.name',
    '\\\\',
    '\\"',
    '\\n',
    '\\x',
    '\u00c3\u00a4',
    '\xff',
    '\xed\xa0\x80',
    '\t',
    '\r',
    ' # ',
    ',',
    'y'.repeat(17),
  ];
  const text = Array.from({ length: pick(5) }, () => some(pick, parts)).join('');
  return `"${text}${some(pick, ['"', '"', '"', '"', '"', '', '\\'])}`;
}

function labelName(pick: Pick): string {
  if (pick(6) > 0) return some(pick, goodNames);
  return pick(2) === 0 ? quoted(pick) : some(pick, ['', '0a', 'a-b', 'a:b', '\u00c3\u00a4']);
}

function labels(pick: Pick): string {
  const space = (): string => (pick(12) === 0 ? some(pick, [' ', '\t', '  ']) : '');
  const all = Array.from({ length: pick(5) }, () => {
    if (pick(12) === 0) return quoted(pick);
    const equals = pick(30) === 0 ? '' : '=';
    const value = pick(30) === 0 ? '1' : quoted(pick);
    return `${space()}${labelName(pick)}${space()}${equals}${space()}${value}${space()}`;
  });
  return `{${all.join(',')}${some(pick, ['', '', '', ',', ',,', ' '])}${pick(30) === 0 ? '' : '}'}`;
}

function value(pick: Pick): string {
  if (pick(4) > 0) return decimalText(pick);
  return some(pick, [
    '',
    'NaN',
    'nan',
    '-NaN',
    '+nan',
    'Inf',
    '+Inf',
    '-inf',
    'INFINITY',
    '-infinity',
    'infinit',
    '+1',
    '+-1',
    '--1',
    '+1.5e3',
    '.',
    '1e',
    '0x10',
    '1_0',
    '-0',
    '1e400',
    '1027x',
    '18446744073709551615',
    '18446744073709551616',
  ]);
}

function time(pick: Pick): string {
  const times = [
    '1700000000000',
    '1700000000',
    '0',
    '-1',
    '9223372036854',
    '9223372036855',
    '1700000000.5',
    '1.700000000123e+09',
    '1700000000.1234567891',
  ];
  if (pick(5) > 0) return some(pick, times);
  return some(pick, [
    '',
    'x',
    '-',
    '.5',
    '-.25',
    '+1',
    '+-1',
    '1.',
    '1e',
    '1e9',
    '1E+5',
    '1e10',
    '1e-30',
    '1e999999999',
    '1e-999999999',
    '0e99999999',
    '12345678901234567890123e-13',
    '0.00000000000000000000000000012',
    '9223372036.854775807',
    '9223372036.854775808',
    '-9223372036.854775808',
    'NaN',
    '1700000000x',
    '18446744073709551616',
  ]);
}

/** About as many labels, or bytes of them, as one may have. */
function longLine(pick: Pick): string {
  const count = pick(2) === 0 ? 1021 + pick(5) : 1;
  const value = 'v'.repeat(count === 1 ? 65_490 + pick(20) : pick(3));
  const all = Array.from({ length: count }, (_, i) => `l${String(i).padStart(4, '0')}="${value}"`);
  if (pick(3) === 0) all.reverse();
  return `m{${all.join(',')}} 1`;
}

function line(pick: Pick): string {
  if (pick(300) === 0) return longLine(pick);
  if (pick(15) === 0) {
    return some(pick, ['', ' ', '\r', '\t', '# HELP a b', '# EOF', '#', ' # a comment']);
  }
  const name =
    pick(8) === 0 ? some(pick, ['', '0a', 'a.b', '\u00c3\u00a4']) : some(pick, goodNames);
  const space = (): string => some(pick, [' ', ' ', ' ', ' ', '\t', '  ']);
  const series = name + (pick(20) === 0 ? ' ' : '') + (pick(3) > 0 ? labels(pick) : '');
  const when = pick(2) === 0 ? '' : space() + time(pick);
  const exemplar =
    pick(6) === 0
      ? `${space()}#${space()}${labels(pick)}${space()}${value(pick)}${pick(2) === 0 ? '' : space() + time(pick)}`
      : '';
  const end = some(pick, ['', '', '', ' ', '\r', ' x', ' #']);
  return `${series}${pick(15) === 0 ? '' : space()}${value(pick)}${when}${exemplar}${end}`;
}

/** @param size number of texts */
export function fuzz(seed: number, size: number): void {
  const options = (pick: Pick) => ({
    format: pick(2) === 0 ? formatPrometheus : formatOpenMetrics,
    unitNanos: 1n,
    nowNanos: 1_700_000_000_123_000_000n,
  });
  fuzzLines({ name: "lines of Prometheus' text", line, options }, seed, size);
}
