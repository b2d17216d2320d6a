import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Picklable, pickledDictionary, pickledList } from './pickle.ts';

/** What Python's pickle reads, as far as it is written here. */
function unpickled(bytes: Uint8Array): unknown {
  const data = Buffer.from(bytes);
  const stack: unknown[] = [];
  const mark = Symbol('mark');
  const behindMark = (): unknown[] => {
    const items = stack.splice(stack.lastIndexOf(mark));
    return items.slice(1);
  };
  let at = 0;
  while (true) {
    const code = data[at++]!;
    switch (String.fromCharCode(code)) {
      case '\x80':
        assert.equal(data[at++], 2);
        break;
      case ']':
        stack.push([]);
        break;
      case '}':
        stack.push({});
        break;
      case '(':
        stack.push(mark);
        break;
      case 'e': {
        const items = behindMark();
        (stack.at(-1) as unknown[]).push(...items);
        break;
      }
      case 'u': {
        const items = behindMark();
        const dictionary = stack.at(-1) as Record<string, unknown>;
        for (let i = 0; i < items.length; i += 2) dictionary[items[i] as string] = items[i + 1];
        break;
      }
      case 'X': {
        const length = data.readUInt32LE(at);
        stack.push(data.toString('utf8', at + 4, at + 4 + length));
        at += 4 + length;
        break;
      }
      case 'G':
        stack.push(data.readDoubleBE(at));
        at += 8;
        break;
      case 'J':
        stack.push(data.readInt32LE(at));
        at += 4;
        break;
      case '\x8a':
        assert.equal(data[at], 8);
        stack.push(Number(data.readBigInt64LE(at + 1)));
        at += 9;
        break;
      case 'N':
        stack.push(null);
        break;
      case '\x88':
        stack.push(true);
        break;
      case '\x89':
        stack.push(false);
        break;
      case '.':
        assert.equal(at, data.length);
        assert.equal(stack.length, 1);
        return stack[0];
      default:
        assert.fail(`opcode ${code}`);
    }
  }
}

test('values come back as they were', () => {
  const fields: { readonly [key: string]: Picklable } = {
    text: 'Zürich\n',
    empty: '',
    numbers: [0, 1, -1, 2 ** 31 - 1, -(2 ** 31), 2 ** 31, -(2 ** 40), 0.5, Infinity],
    nothing: null,
    yes: true,
    no: false,
    inside: { a: [{ b: [] }] },
  };
  const column = {
    values: Float64Array.of(1, 0, -2.5),
    present: Uint8Array.of(1, 0, 1),
  };
  const items = [
    pickledDictionary(fields),
    pickledDictionary({ x: 1 }, { name: 'values', of: column }),
  ];
  assert.deepEqual(unpickled(Buffer.concat([...pickledList(items)])), [
    fields,
    { x: 1, values: [1, null, -2.5] },
  ]);
  assert.deepEqual(unpickled(Buffer.concat([...pickledList([])])), []);
});

test("the bytes are those of Python's protocol 2", () => {
  const bytes = Buffer.concat([...pickledList([pickledDictionary({ a: 1.5 })])]);
  // As pickletools.dis shows it: PROTO 2, EMPTY_LIST, MARK, EMPTY_DICT, MARK, BINUNICODE 'a', BINFLOAT 1.5, SETITEMS, APPENDS, STOP.
  assert.equal(bytes.toString('hex'), '80025d287d285801000000614' + '73ff800000000000075652e');
});
