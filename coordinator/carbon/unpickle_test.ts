import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import { linesOfPickle, type UnpickledLines } from './unpickle.ts';

function read(pickle: Uint8Array): UnpickledLines {
  return inOneGo(linesOfPickle(pickle));
}

/**
 * What Python makes of [('servers.web1.cpu', (1700000000, 12.5)), ('a.b', (1700000000.5, 3)), ('\u00fc.x', (1700000000, 2**40)),
 * ('bad path', (1, 2)), ('n', (1,)), ('s', ('1700000000', '7.25'))], by protocol; 3 differs from 2 in its number alone, 5 from 4.
 */
const pickles = [
  '286c70300a2856736572766572732e776562312e6370750a70310a2849313730303030303030300a4631322e350a7470320a7470330a612856612e620a70340a2846313730303030303030302e350a49330a7470350a7470360a612856fc2e780a70370a2849313730303030303030300a4c313039393531313632373737364c0a7470380a7470390a61285662616420706174680a7031300a2849310a49320a747031310a747031320a6128566e0a7031330a2849310a747031340a747031350a612856730a7031360a2856313730303030303030300a7031370a56372e32350a7031380a747031390a747032300a612e',
  '5d710028285810000000736572766572732e776562312e6370757101284a00f15365474029000000000000747102747103285803000000612e627104284741d954fc402000004b03747105747106285804000000c3bc2e787107284a00f153654c313039393531313632373737364c0a7471087471092858080000006261642070617468710a284b014b0274710b74710c2858010000006e710d284b0174710e74710f28580100000073711028580a0000003137303030303030303071115804000000372e32357112747113747114652e',
  '80025d7100285810000000736572766572732e776562312e63707571014a00f153654740290000000000008671028671035803000000612e6271044741d954fc402000004b038671058671065804000000c3bc2e7871074a00f153658a0600000000000186710886710958080000006261642070617468710a4b014b0286710b86710c58010000006e710d4b0185710e86710f5801000000737110580a0000003137303030303030303071115804000000372e32357112867113867114652e',
  '80049590000000000000005d94288c10736572766572732e776562312e637075944a00f15365474029000000000000869486948c03612e62944741d954fc402000004b03869486948c04c3bc2e78944a00f153658a06000000000001869486948c086261642070617468944b014b02869486948c016e944b01859486948c0173948c0a31373030303030303030948c04372e32359486948694652e',
];

test("Python's pickles are read in every protocol, what is no sample is counted", () => {
  for (const pickle of pickles) {
    const { text, refused } = read(Buffer.from(pickle, 'hex'));
    assert.deepEqual(Buffer.from(text).toString().split('\n'), [
      'servers.web1.cpu 12.5 1700000000',
      'a.b 3 1700000000.5',
      'ü.x 1099511627776 1700000000',
      's 7.25 1700000000',
      '',
    ]);
    assert.equal(refused, 2);
  }
});

test('what would call something, is cut off or is no list is refused', () => {
  for (const [bytes, reason] of [
    [Buffer.from("cos\nsystem\n(S'true'\ntR."), /not opcode 0x63/],
    [Buffer.from(pickles[2]!, 'hex').subarray(0, 50), /cut off/],
    [Buffer.from('K\x01.', 'latin1'), /it is no list/],
    [Buffer.from('e.'), /no program/],
    [Buffer.from('(.'), /no program/],
    [Buffer.alloc(0), /cut off/],
  ] as const) {
    assert.throws(
      () => read(bytes),
      (error) => error instanceof TsdbError && reason.test(error.message),
      String(reason),
    );
  }
});

test('a text that is named again and again is no way to samples without end', () => {
  const list = (path: string, times: number): Buffer =>
    Buffer.concat([
      Buffer.from('](X'),
      Buffer.from(Uint32Array.of(path.length).buffer),
      Buffer.from(`${path}K\x01K\x02\x86\x86q\x00`, 'latin1'),
      Buffer.from('h\x00'.repeat(times), 'latin1'),
      Buffer.from('e.'),
    ]);
  const few = read(list('a.b', 100));
  assert.equal(few.text.length, 101 * 'a.b 2 1\n'.length);
  for (const path of ['a'.repeat(500_000), `${'a'.repeat(60_000)} `, 'a'.repeat(100)]) {
    assert.throws(
      () => read(list(path, 260_000)),
      /its samples are longer than 16777216 characters/,
    );
  }
});

test('a path that is no text, or has escapes of Python, is no sample', () => {
  const sampleOf = (path: Buffer): Buffer =>
    Buffer.concat([
      Buffer.from(']'),
      path,
      Buffer.from('K\x01K\x02\x86\x86aX\x03\x00\x00\x00c.dK\x01K\x02\x86\x86a.', 'latin1'),
    ]);
  for (const path of [
    Buffer.from('U\x03a.\xe9', 'latin1'),
    Buffer.from('C\x03a.\xe9', 'latin1'),
    Buffer.from("S'a.\\xe9'\n", 'latin1'),
  ]) {
    const { text, refused } = read(sampleOf(path));
    assert.equal(Buffer.from(text).toString(), 'c.d 2 1\n');
    assert.equal(refused, 1);
  }
});

const sampleOf = (path: string, value: string): Buffer =>
  Buffer.from(`(l(${path}(I1\n${value}tta.`, 'latin1');

test('characters beyond 16 bits are read in protocol 0, and halves of them are none', () => {
  const { text } = read(sampleOf('V\\U0001f600.x\n', 'I2\n'));
  assert.equal(Buffer.from(text).toString(), '\u{1f600}.x 2 1\n');
  for (const path of ['V\\ud83d.x\n', "S'\xe9'\n", 'I7\n', 'F7.5\n']) {
    assert.equal(read(sampleOf(path, 'I2\n')).refused, 1, path);
  }
});

test('numbers of any length and negative zeros stay what they are', () => {
  const eighty = '\x00'.repeat(9);
  for (const [value, expected] of [
    ['F-0.0\n', '-0'],
    ['G\x80\x00\x00\x00\x00\x00\x00\x00', '-0'],
    [`\x8a\x0a${eighty}\x01`, '4.722366482869645e+21'],
    ['L4722366482869645213696L\n', '4.722366482869645e+21'],
    ['F-inf\n', '-Infinity'],
    ['F1.5e+300\n', '1.5e+300'],
  ] as const) {
    const { text } = read(sampleOf('Va\n', value));
    assert.equal(Buffer.from(text).toString(), `a ${expected} 1\n`);
  }
  for (const value of [
    'I01\n',
    '\x88',
    `\x8a\xff${'\x7f'.repeat(255)}`,
    `L${'9'.repeat(400)}L\n`,
    'F1_0\n',
  ]) {
    assert.equal(read(sampleOf('Va\n', value)).refused, 1, JSON.stringify(value));
  }
});

test('a message is read some thousands of opcodes, and of samples, at a time', () => {
  const stepsOf = (pickle: Uint8Array): number => [...linesOfPickle(pickle)].length;
  // A list of a million numbers that are no samples, and one of 40,000 samples.
  const numbers = Buffer.concat([
    Buffer.from('('),
    Buffer.alloc(1 << 20, Buffer.of(0x4b, 1)),
    Buffer.from('l.'),
  ]);
  const opcodes = 2 ** 19;
  assert.ok(stepsOf(numbers) >= opcodes / 4_096 + opcodes / 1_024 - 2);
  const sample = Buffer.from('(Va\n(I1\nI2\nttq\x01', 'latin1');
  const again = Buffer.alloc(2 * 40_000, Buffer.from('h\x01', 'latin1'));
  const list = Buffer.concat([Buffer.from('('), sample, again, Buffer.from('l.')]);
  assert.equal(read(list).text.length, 40_001 * 'a 2 1\n'.length);
  assert.ok(stepsOf(list) >= 40_000 / 4_096 + 40_000 / 1_024 - 2);
});
