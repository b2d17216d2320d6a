/** Pickles as Python's two picklers write them, of any protocol, for tests. */
import type { Pick } from '#test/sim/mutate.ts';

/** Texts, whole numbers, floats, and lists or tuples: which of both is up to the writer, but for the outermost. */
export type Pickled = string | bigint | number | boolean | null | readonly Pickled[];

export interface PickleStyle {
  /** 0 to 5. */
  readonly protocol: number;
  /** Texts are bytes: protocols 0 to 2. */
  readonly isPython2: boolean;
}

/** @param pick decides what a pickler is free in */
export function pickleOf(list: readonly Pickled[], style: PickleStyle, pick: Pick): Buffer {
  const writer = new PickleWriter(style, pick);
  return writer.write(list);
}

const u32 = (value: number): Uint8Array => new Uint8Array(Uint32Array.of(value).buffer);
const itemsAtOnce = 1000;

class PickleWriter {
  readonly #style: PickleStyle;
  readonly #pick: Pick;
  readonly #memo = new Map<Pickled, number>();
  readonly #parts: Uint8Array[] = [];

  constructor(style: PickleStyle, pick: Pick) {
    this.#style = style;
    this.#pick = pick;
  }

  write(list: readonly Pickled[]): Buffer {
    const { protocol } = this.#style;
    this.#list(list);
    this.#put('.');
    const program = Buffer.concat(this.#parts);
    if (protocol < 2) return program;
    const head = Buffer.of(0x80, protocol);
    if (protocol < 4 || program.length < 4) return Buffer.concat([head, program]);
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(program.length));
    return Buffer.concat([head, Buffer.of(0x95), length, program]);
  }

  #put(code: string, ...parts: (Uint8Array | string)[]): void {
    this.#parts.push(Buffer.from(code, 'latin1'));
    for (const part of parts) this.#parts.push(Buffer.from(part as string, 'utf8'));
  }

  #value(value: Pickled): void {
    if (typeof value === 'string' || Array.isArray(value)) {
      const known = this.#memo.get(value);
      if (known !== undefined && this.#pick(4) > 0) return this.#get(known);
    }
    if (value === null) this.#put('N');
    else if (typeof value === 'boolean') this.#boolean(value);
    else if (typeof value === 'bigint') this.#whole(value);
    else if (typeof value === 'number') this.#float(value);
    else if (typeof value === 'string') this.#text(value);
    else if (this.#pick(4) === 0) this.#list(value);
    else this.#tuple(value);
  }

  #list(items: readonly Pickled[]): void {
    const isOld = this.#style.protocol === 0;
    this.#put(isOld ? '(l' : ']');
    this.#remember(items);
    for (let from = 0; from < items.length; from += itemsAtOnce) {
      const part = items.slice(from, from + itemsAtOnce);
      if (isOld || part.length === 1) {
        for (const item of part) {
          this.#value(item);
          this.#put('a');
        }
        continue;
      }
      this.#put('(');
      for (const item of part) this.#value(item);
      this.#put('e');
    }
  }

  #tuple(items: readonly Pickled[]): void {
    const { protocol } = this.#style;
    if (items.length === 0 && protocol > 0) return this.#put(')');
    const isShort = protocol >= 2 && items.length > 0 && items.length <= 3;
    if (!isShort) this.#put('(');
    for (const item of items) this.#value(item);
    this.#put(isShort ? String.fromCharCode(0x84 + items.length) : 't');
    this.#remember(items);
  }

  #boolean(value: boolean): void {
    if (this.#style.protocol < 2) this.#put('I', value ? '01\n' : '00\n');
    else this.#put(value ? '\x88' : '\x89');
  }

  #whole(value: bigint): void {
    const { protocol } = this.#style;
    const isInt32 = BigInt.asIntN(32, value) === value;
    if (protocol === 0 && isInt32) return this.#put('I', `${value}\n`);
    if (protocol > 0 && isInt32) {
      if (value >= 0n && value < 256n) return this.#put('K', Uint8Array.of(Number(value)));
      if (value >= 0n && value < 65536n) {
        return this.#put('M', Uint8Array.of(Number(value) & 255, Number(value) >> 8));
      }
      return this.#put('J', u32(Number(value) >>> 0));
    }
    if (protocol < 2) return this.#put('L', `${value}L\n`);
    const bytes: number[] = [];
    while (BigInt.asIntN(8 * bytes.length, value) !== value || bytes.length === 0) {
      bytes.push(Number((value >> BigInt(8 * bytes.length)) & 255n));
    }
    this.#put('\x8a', Uint8Array.of(bytes.length), Uint8Array.from(bytes));
  }

  #float(value: number): void {
    if (this.#style.protocol === 0) {
      const text = Object.is(value, -0) ? '-0.0' : String(value).replace('Infinity', 'inf');
      return this.#put('F', `${text.replace('NaN', 'nan')}\n`);
    }
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleBE(value);
    this.#put('G', bytes);
  }

  #text(value: string): void {
    const { protocol, isPython2 } = this.#style;
    const bytes = Buffer.from(value);
    const isShort = bytes.length < 256;
    const isBytes = isPython2 || (protocol >= 3 && this.#pick(8) === 0);
    if (protocol === 0) {
      // oxlint-disable-next-line no-control-regex -- bytes that need no escape
      if (isPython2 && /^[\x20-\x7e]*$/.test(value) && !/['\\]/.test(value)) {
        this.#put('S', `'${value}'\n`);
      } else this.#put('V', Buffer.from(rawEscaped(value), 'latin1'), '\n');
    } else if (isBytes && protocol >= 3) {
      if (isShort) this.#put('C', Uint8Array.of(bytes.length), bytes);
      else this.#put('B', u32(bytes.length), bytes);
    } else if (isBytes) {
      if (isShort) this.#put('U', Uint8Array.of(bytes.length), bytes);
      else this.#put('T', u32(bytes.length), bytes);
    } else if (protocol >= 4 && isShort) this.#put('\x8c', Uint8Array.of(bytes.length), bytes);
    else this.#put('X', u32(bytes.length), bytes);
    this.#remember(value);
  }

  /** As picklers do it with each text, list and tuple; which of them are fetched again is their own affair. */
  #remember(value: Pickled): void {
    const { protocol } = this.#style;
    const place = this.#memo.size;
    if (this.#memo.has(value)) return;
    this.#memo.set(value, place);
    if (protocol >= 4) this.#put('\x94');
    else if (protocol === 0) this.#put('p', `${place}\n`);
    else if (place < 256) this.#put('q', Uint8Array.of(place));
    else this.#put('r', u32(place));
  }

  #get(place: number): void {
    if (this.#style.protocol === 0) this.#put('g', `${place}\n`);
    else if (place < 256) this.#put('h', Uint8Array.of(place));
    else this.#put('j', u32(place));
  }
}

/** Python's raw-unicode-escape: characters beyond bytes, backslashes and ends of lines by their numbers. */
function rawEscaped(text: string): string {
  let escaped = '';
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (code > 0xffff) escaped += `\\U${code.toString(16).padStart(8, '0')}`;
    else if (code > 255 || character === '\\' || character === '\n') {
      escaped += `\\u${code.toString(16).padStart(4, '0')}`;
    } else escaped += character;
  }
  return escaped;
}
