/** The kernel must read texts of Influx's line protocol, whole, cut and damaged, as its twin does, and any decimal as `Number`. */
import assert from 'node:assert/strict';
import { countInputs } from '#test/sim/counts.ts';
import type { Pick } from '#test/sim/mutate.ts';
import type { WriteDecoderCore } from '../core.ts';
import { formatInflux } from './layout.ts';
import { fuzzLines, some } from './lines_testing.ts';
import { decimalText } from './decimal_testing.ts';

const units = [1n, 1_000n, 1_000_000n, 1_000_000_000n, 60_000_000_000n, 3_600_000_000_000n];
const nowNanos = 1_700_000_000_123_456_789n;

/** Mostly a plain word; else with what has to be escaped, is no name, or is no text. */
function word(pick: Pick): string {
  if (pick(4) > 0)
    return some(pick, ['cpu', 'host', 'usage_user', 'a', 'region', 'us-east-1', 'Z9', '0']);
  const parts = [
    'a',
    '=',
    ',',
    ' ',
    '\\',
    '"',
    '\\ ',
    '\\,',
    '\\=',
    '__name__',
    '7',
    ':',
    '\u00c3\u00a4',
    '\xff',
    '\t',
  ];
  return Array.from({ length: pick(6) }, () => some(pick, parts)).join('');
}

/** As it should stand in a line; not always. */
function escaped(pick: Pick, text: string): string {
  return pick(20) === 0 ? text : text.replace(/[ ,=]/g, '\\$&');
}

function value(pick: Pick): string {
  switch (pick(8)) {
    case 0:
      return `"${word(pick)}${some(pick, ['', '\\"', '\n', '\\\\', ','])}"`;
    case 1:
      return some(pick, [
        't',
        'T',
        'true',
        'True',
        'TRUE',
        'f',
        'F',
        'false',
        'False',
        'FALSE',
        'tRUE',
        'fALSE',
        'truex',
      ]);
    case 2:
    case 3:
      return `${decimalText(pick).replace(/[.eE].*$/, '')}${some(pick, ['i', 'u', ''])}`;
    case 4:
      return some(pick, [
        '',
        '-',
        '.',
        '1.',
        '.5',
        '-.5',
        '1e',
        '1e+',
        '0i',
        '-0',
        '-0i',
        '1i2',
        'nan',
        '+1',
        '0x1',
        '1_0',
      ]);
    default:
      return decimalText(pick);
  }
}

function timeText(pick: Pick): string {
  const times = [
    '0',
    '-1',
    '1700000000',
    '1700000000123',
    '1700000000123456789',
    '9223372036854775807',
  ];
  switch (pick(6)) {
    case 0:
      return '';
    case 1:
      return some(pick, [
        '-',
        'x',
        '12x',
        '1.5',
        '9223372036854775808',
        '18446744073709551616',
        '-9223372036854775808',
        '00',
      ]);
    default:
      return some(pick, times);
  }
}

function line(pick: Pick): string {
  if (pick(20) === 0) return some(pick, ['', '# a comment', ' ', '#', '\r']);
  const tags = Array.from(
    { length: pick(5) },
    () => `,${escaped(pick, word(pick))}=${escaped(pick, word(pick))}`,
  );
  const fields = Array.from(
    { length: 1 + pick(4) },
    () => `${escaped(pick, word(pick))}=${value(pick)}`,
  );
  const time = timeText(pick);
  const space = pick(15) === 0 ? '  ' : ' ';
  const end = some(pick, ['', '', '', ' ', '\r', ',', ' x']);
  return `${escaped(pick, word(pick))}${tags.join('')}${space}${fields.join(',')}${time === '' ? '' : space}${time}${end}`;
}

/** @param size number of texts */
export function fuzz(seed: number, size: number): void {
  const options = (pick: Pick) => ({
    format: formatInflux,
    unitNanos: some(pick, units),
    nowNanos: pick(2) === 0 ? nowNanos : 1_700_000_000_000_000_000n,
  });
  fuzzLines({ name: 'Influx lines', line, options }, seed, size, fuzzDecimals);
}

/** Numbers alone: a line has many of them. */
function fuzzDecimals(pick: Pick, kernel: WriteDecoderCore, where: string): void {
  const texts = Array.from({ length: 20 }, () => decimalText(pick)).filter((text) =>
    Number.isFinite(Number(text)),
  );
  const bytes = Buffer.from(`m ${texts.map((text, i) => `f${i}=${text}`).join(',')} 0`);
  const options = {
    format: formatInflux,
    isLast: true,
    rowsMax: 1000,
    unitNanos: 1n,
    nowNanos: 0n,
  };
  countInputs('Influx lines of numbers');
  assert.equal(kernel.lines([bytes], options), bytes.length, where);
  if (kernel.lineProblems.count > 0) {
    // Of more than 19 digits the kernel refuses some that are next to the largest number.
    assert.ok(
      texts.some((text) => Math.abs(Number(text)) > 1.797e308),
      `${where}: ${texts.join(' ')}`,
    );
    return;
  }
  const values = kernel.rowValues;
  for (const [i, text] of texts.entries()) {
    assert.ok(Object.is(values[i], Number(text)), `${where}: ${text}: ${values[i]}`);
  }
}
