/** What points of OpenTSDB come to, written for reading (docs/LINES.md), for campaigns. */
import { type Tag } from '#lib/tags.ts';
import type { Pick } from '#test/sim/mutate.ts';
import { plainNameTwin, rowText } from '../ingest/rows_testing.ts';

export const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;

export const metrics: readonly string[] = [
  'sys.cpu',
  'a',
  '0x',
  '2x',
  'a:b',
  'é',
  'a b',
  '.',
  '__x',
  'x'.repeat(200),
];
export const tagNames: readonly string[] = [
  'host',
  'dc.1',
  'a-b',
  '07',
  '1',
  'é',
  '__x',
  '__name__',
  '_',
  'a b',
  'host',
];
export const tagValues: readonly string[] = [
  'web01',
  'lga/ü',
  '\u{1f600}',
  '"',
  '\\',
  'a=b',
  '{},',
  '\\n',
  '\x01',
  'x\r',
  '',
];

export function numberText(pick: Pick): string {
  const digits = String(pick(10 ** (1 + pick(9))));
  return some(pick, [
    digits,
    digits,
    `-${digits}`,
    `${digits}.${digits}`,
    `+${digits}e-${pick(30)}`,
    `.${digits}`,
    `${digits}.`,
    some(pick, ['-0', '1e308', '1e309', '12345678901234567890', '0.1', '5e-324', '1e-400']),
    some(pick, [
      'NaN',
      'inf',
      'Infinity',
      '',
      '.',
      '1e',
      '0x10',
      '1_0',
      '- 1',
      '--1',
      'true',
      '1 2',
    ]),
  ]);
}

export function timeText(pick: Pick): string {
  const usual = String(1_700_000_000 + pick(1000));
  if (pick(3) > 0) return pick(4) === 0 ? `${usual}${100 + pick(900)}` : usual;
  return some(pick, [
    `${usual}.${pick(10 ** (1 + pick(3)))}`,
    `${usual}.`,
    `${usual}.1234`,
    '0',
    '4294967295',
    '4294967296',
    '4294967295.999',
    '4294967296.5',
    '9223372036854',
    '9223372036855',
    '9007199254740993',
    '00000000001',
    '-1',
    '+1',
    '1e9',
    '',
    'now',
    '1700000000000000',
    '17000000000000000',
  ]);
}

/** Null for what is no time. */
export function millisOf(text: string): number | null {
  if (!/^[0-9]+(\.[0-9]+)?$/.test(text)) return null;
  const [whole, fraction = ''] = text.split('.') as [string, string?];
  const number = BigInt(whole);
  if (whole.length > 16 || fraction.length > 3) return null;
  if (number <= 0xffff_ffffn) return Number(number) * 1000 + Number(fraction.padEnd(3, '0'));
  const isOne = fraction === '' && number * 1_000_000n < 2n ** 63n;
  return isOne ? Number(number) : null;
}

/** Null for what is no value. */
export function valueOf(text: string): number | null {
  const isDecimal = /[0-9]/.test(text) && /^[-+]?[0-9]*\.?[0-9]*([eE][-+]?[0-9]+)?$/.test(text);
  if (!isDecimal || /^[-+]?\.?[eE]/.test(text)) return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

/** Null when it is refused. */
export function rowOf(
  metric: string,
  millis: number | null,
  value: number | null,
  tags: readonly (readonly [name: string, value: string])[],
): string | null {
  if (millis === null || value === null || metric === '') return null;
  const all = new Map([['__name__', plainNameTwin(metric, true)]]);
  for (const [given, text] of tags) {
    const name = plainNameTwin(given, false);
    if (text === '' || name === '' || name.startsWith('__') || all.has(name)) return null;
    all.set(name, text);
  }
  const sorted = [...all].toSorted(([a], [b]) => (a < b ? -1 : 1));
  const labels: Tag[] = sorted.map(([name, text]) => ({ name, value: text }));
  return rowText(labels, BigInt(millis) * 1_000_000n, value);
}
