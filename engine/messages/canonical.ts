/**
 * Messages in protobuf's wire form as typed values (docs/TYPED_ROWS.md): whatever the order of fields, packed or not,
 * said twice or in pieces, one message has one string.
 */
import { isUtf8 } from 'node:buffer';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import { typedBytesMax, typedDepthMax, typedFieldsMax } from '../codec/layout.ts';
import { fieldType, valueKind } from '../typed/typed_value.ts';
import { BytesWriter } from './bytes_writer.ts';
import { formOf } from './field_forms.ts';
import type { MessageType, SchemaField } from './schema.ts';
import { WireReader, wireType } from './wire_reader.ts';

/** A writer may know a later schema: when that has come, the same message is taken. */
export class UnknownField extends TsdbError {
  constructor(where: string, number: number) {
    super('BAD_REQUEST', `cannot take message: ${where}: the schema has no field ${number}`);
  }
}

/** What a field comes to before it is kept, worked out once. */
interface Plan {
  readonly field: SchemaField;
  readonly name: string;
  readonly kind: SchemaField['kind'];
  readonly wire: number;
  readonly isList: boolean;
  /** All occurrences count: lists, and messages, which are joined. */
  readonly isGathered: boolean;
  readonly isOptional: boolean;
  /** Number and type of the field that it becomes. */
  readonly tag: number;
}

interface TypePlan {
  readonly plans: readonly Plan[];
  /** Place of each number below `quickNumbers`, or -1. */
  readonly quick: Int16Array;
  readonly places: ReadonlyMap<number, number>;
}

/** What is longer is no message of as many bytes as a value may have, but one that says things many times. */
const wireBytesMax = 4 * typedBytesMax;

const quickNumbers = 64;
const plansOf = new WeakMap<MessageType, TypePlan>();

function planOf(type: MessageType): TypePlan {
  const known = plansOf.get(type);
  if (known !== undefined) return known;
  const plans = type.fields.map((field): Plan => {
    const { kind, rule, name, number } = field;
    const isList = rule === 'repeated' || rule === 'map';
    const form = formOf[kind];
    return {
      ...{ field, name, kind, wire: form.wire, isList },
      isGathered: isList || kind === 'message',
      isOptional: rule === 'optional',
      tag: number * 8 + (isList ? fieldType.bytes : form.type),
    };
  });
  const quick = new Int16Array(quickNumbers).fill(-1);
  for (const [place, { field }] of plans.entries()) {
    if (field.number < quickNumbers) quick[field.number] = place;
  }
  const places = new Map(plans.map(({ field }, place) => [field.number, place]));
  const plan = { plans, quick, places };
  plansOf.set(type, plan);
  return plan;
}

/** Makes typed values; keeps its work space from one message to the next. */
export class MessageEncoder {
  readonly #reader = new WireReader();
  #out = new BytesWriter();
  /** Of each field of the levels that are open: one more than where its value is, 0 when there is none. */
  #last = new Int32Array(256);
  /** Of the same: first and last occurrence, numbers of `#from`. */
  #first = new Int32Array(256);
  #lastOf = new Int32Array(256);
  #top = 0;
  /** Occurrences: where each begins and ends, its wire type, and the next one of its field. */
  #from = new Int32Array(256);
  #end = new Int32Array(256);
  #wire = new Uint8Array(256);
  #next = new Int32Array(256);
  #occurrences = 0;
  #fieldsLeft = 0;
  readonly #path: string[] = [];

  /**
   * @param layout number of the schema
   * @returns a copy
   * @throws {UnknownField} and other {TsdbError} BAD_REQUEST that name the path of the field
   */
  encode(wire: Uint8Array, type: MessageType, layout: number): Uint8Array<ArrayBuffer> {
    if (wire.length > wireBytesMax) {
      throw badRequest(`cannot take message: it is sent with more than ${wireBytesMax} bytes`);
    }
    this.#reader.open(wire);
    this.#out.length = 0;
    this.#top = 0;
    this.#occurrences = 1;
    this.#fieldsLeft = typedFieldsMax;
    this.#path.length = 0;
    this.#out.byte(valueKind.message);
    this.#out.varint(layout);
    try {
      this.#level(type, this.#occurrence(0, wire.length, 0), 0);
    } catch (error) {
      if (error instanceof UnknownField || !(error instanceof TsdbError)) throw error;
      throw badRequest(`cannot take message: ${this.#where(type)}: ${messageOf(error)}`);
    }
    if (this.#out.length > typedBytesMax) {
      throw badRequest(`cannot take message: it is longer than ${typedBytesMax} bytes`);
    }
    return this.#out.finish();
  }

  #where(type: MessageType): string {
    return this.#path.length === 0 ? type.name : this.#path.join('.');
  }

  #occurrence(from: number, end: number, wire: number): number {
    const index = this.#occurrences++;
    if (index === this.#from.length) {
      this.#from = grown(this.#from);
      this.#end = grown(this.#end);
      this.#next = grown(this.#next);
      const larger = new Uint8Array(2 * this.#wire.length);
      larger.set(this.#wire);
      this.#wire = larger;
    }
    this.#from[index] = from;
    this.#end[index] = end;
    this.#wire[index] = wire;
    this.#next[index] = 0;
    return index;
  }

  /**
   * Writes the fields of a message.
   * @param part first of its occurrences, which are one message
   */
  #level(type: MessageType, part: number, depth: number): void {
    if (depth > typedDepthMax) throw badRequest(`messages nest more than ${typedDepthMax} deep`);
    const { plans, quick, places } = planOf(type);
    const base = this.#top;
    this.#top += plans.length;
    if (this.#top > this.#last.length) {
      const size = Math.max(this.#top, 2 * this.#last.length);
      this.#last = grown(this.#last, size);
      this.#first = grown(this.#first, size);
      this.#lastOf = grown(this.#lastOf, size);
    }
    this.#last.fill(0, base, this.#top);
    this.#first.fill(0, base, this.#top);
    for (let at = part; at !== 0; at = this.#next[at]!) {
      this.#scan(type, plans, quick, places, base, this.#from[at]!, this.#end[at]!);
    }
    for (let place = 0; place < plans.length; place++) {
      const plan = plans[place]!;
      const slot = base + place;
      if (plan.isGathered) {
        if (this.#first[slot] !== 0) this.#gathered(plan, this.#first[slot]!, depth);
      } else if (this.#last[slot] !== 0) this.#scalar(plan, this.#last[slot]! - 1);
    }
    this.#top = base;
  }

  /** Notes where the fields of a part are. */
  #scan(
    type: MessageType,
    plans: readonly Plan[],
    quick: Int16Array,
    places: ReadonlyMap<number, number>,
    base: number,
    from: number,
    end: number,
  ): void {
    const reader = this.#reader;
    reader.at = from;
    while (reader.at < end) {
      reader.varint(end);
      const wire = reader.low & 7;
      const number = reader.high * 2 ** 29 + (reader.low >>> 3);
      const place = number < quickNumbers ? quick[number]! : (places.get(number) ?? -1);
      if (place < 0) throw new UnknownField(this.#where(type), number);
      const plan = plans[place]!;
      const isPacked = plan.isList && wire === wireType.delimited && plan.wire !== wire;
      if (wire !== plan.wire && !isPacked) {
        this.#path.push(plan.name);
        throw badRequest(`it is sent with wire type ${wire}, and is of type ${plan.kind}`);
      }
      const slot = base + place;
      const at = reader.at;
      if (!plan.isGathered) {
        reader.skip(wire, end);
        this.#last[slot] = at + 1;
        continue;
      }
      let begin = at;
      if (wire === wireType.delimited) {
        const valueEnd = reader.delimited(end);
        begin = reader.at;
        reader.at = valueEnd;
      } else reader.skip(wire, end);
      const index = this.#occurrence(begin, reader.at, wire);
      if (this.#first[slot] === 0) this.#first[slot] = index;
      else this.#next[this.#lastOf[slot]!] = index;
      this.#lastOf[slot] = index;
    }
  }

  #tag(plan: Plan): void {
    this.#countField();
    this.#out.varint(plan.tag);
  }

  #countField(): void {
    if (--this.#fieldsLeft < 0) throw badRequest(`it has more than ${typedFieldsMax} fields`);
  }

  /** The value at a place, unless it is the default. */
  #scalar(plan: Plan, at: number): void {
    const reader = this.#reader;
    const { length } = reader.bytes;
    const out = this.#out;
    const { kind } = plan;
    reader.at = at;
    if (kind === 'string' || kind === 'bytes') {
      const end = reader.delimited(length);
      if (end === reader.at && !plan.isOptional) return;
      this.#tag(plan);
      out.varint(end - reader.at);
      this.#checkText(plan, reader.at, end);
      out.copy(reader.bytes, reader.at, end);
      return;
    }
    this.#read(kind, length);
    const { low, high } = reader;
    if (low === 0 && high === 0 && !plan.isOptional) return;
    this.#tag(plan);
    if (kind === 'double') out.fixed64(low, high);
    else if (kind === 'float') out.fixed32(low);
    else if ((plan.tag & 7) === fieldType.uint) out.varint64(low, high);
    else out.varint64((low << 1) ^ (high >> 31), (high << 1) ^ (low >>> 31) ^ (high >> 31));
  }

  /** Reads a number as 64 bits: of signed kinds with its sign, of others with zeros above. */
  #read(kind: Plan['kind'], end: number): void {
    const reader = this.#reader;
    switch (kind) {
      case 'double':
      case 'fixed64':
      case 'sfixed64':
        return reader.fixed64(end);
      case 'float':
      case 'fixed32':
        return reader.fixed32(end);
      case 'sfixed32':
        reader.fixed32(end);
        reader.high = (reader.low | 0) >> 31;
        return;
      case 'int32':
      case 'enum':
        reader.varint(end);
        reader.high = (reader.low | 0) >> 31;
        return;
      case 'uint32':
        reader.varint(end);
        reader.high = 0;
        return;
      case 'bool':
        reader.varint(end);
        reader.low = reader.low !== 0 || reader.high !== 0 ? 1 : 0;
        reader.high = 0;
        return;
      case 'sint32': {
        reader.varint(end);
        const value = (reader.low >>> 1) ^ -(reader.low & 1);
        reader.low = value >>> 0;
        reader.high = value >> 31;
        return;
      }
      case 'sint64': {
        reader.varint(end);
        const { low, high } = reader;
        const sign = -(low & 1);
        reader.low = (((low >>> 1) | (high << 31)) ^ sign) >>> 0;
        reader.high = (high >>> 1) ^ sign;
        return;
      }
      default:
        return reader.varint(end);
    }
  }

  #checkText(plan: Plan, from: number, end: number): void {
    if (plan.kind !== 'string') return;
    const { bytes } = this.#reader;
    // There may be half a million short ones.
    let at = from;
    while (at < end && bytes[at]! < 128) at++;
    if (at === end || isUtf8(bytes.subarray(at, end))) return;
    this.#path.push(plan.name);
    throw badRequest('a string is not UTF-8');
  }

  #gathered(plan: Plan, first: number, depth: number): void {
    this.#path.push(plan.name);
    const out = this.#out;
    const before = out.length;
    const fieldsLeft = this.#fieldsLeft;
    this.#tag(plan);
    const from = out.beginLength();
    if (!plan.isList) {
      this.#level(plan.field.message!, first, depth + 1);
      out.endLength(from);
    } else {
      if (plan.field.rule === 'map') this.#map(plan, first, depth);
      else this.#list(plan, first, depth);
      if (out.length === from) {
        // A packed list of nothing.
        out.length = before;
        this.#fieldsLeft = fieldsLeft;
      } else out.endLength(from);
    }
    this.#path.pop();
  }

  /** Elements as they are packed, shortest; what has a length of its own with that. */
  #list(plan: Plan, first: number, depth: number): void {
    const out = this.#out;
    const reader = this.#reader;
    for (let at = first; at !== 0; at = this.#next[at]!) {
      const [begin, end] = [this.#from[at]!, this.#end[at]!];
      if (plan.kind === 'message') {
        const next = this.#next[at]!;
        // It is a message of its own.
        this.#next[at] = 0;
        const from = out.beginLength();
        this.#level(plan.field.message!, at, depth + 1);
        // A byte each would make a million of them, which are read one by one.
        if (out.length === from) this.#countField();
        out.endLength(from);
        this.#next[at] = next;
      } else if (plan.wire === wireType.delimited) {
        this.#checkText(plan, begin, end);
        out.varint(end - begin);
        out.copy(reader.bytes, begin, end);
      } else {
        reader.at = begin;
        while (reader.at < end) {
          this.#read(plan.kind, end);
          this.#element(plan);
        }
      }
    }
  }

  #element({ kind, wire }: Plan): void {
    const out = this.#out;
    const { low, high } = this.#reader;
    if (wire === wireType.fixed64) out.fixed64(low, high);
    else if (wire === wireType.fixed32) out.fixed32(low);
    else if (kind === 'sint32' || kind === 'sint64') {
      out.varint64((low << 1) ^ (high >> 31), (high << 1) ^ (low >>> 31) ^ (high >> 31));
    } else out.varint64(low, high);
  }

  /** Entries by ascending bytes of their keys, of one key the last. */
  #map(plan: Plan, first: number, depth: number): void {
    const outer = this.#out;
    const entries = new Map<string, Uint8Array>();
    this.#out = new BytesWriter();
    for (let at = first; at !== 0; at = this.#next[at]!) {
      const next = this.#next[at]!;
      this.#next[at] = 0;
      this.#out.length = 0;
      this.#level(plan.field.message!, at, depth + 1);
      this.#next[at] = next;
      if (this.#out.length === 0) this.#countField();
      const entry = this.#out.finish();
      entries.set(keyOf(entry), entry);
    }
    this.#out = outer;
    const sorted = [...entries].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [, entry] of sorted) {
      outer.varint(entry.length);
      outer.copy(entry, 0, entry.length);
    }
  }
}

/** The bytes of an entry's first field if that is its key: strings of Latin-1, which have the order of bytes. */
function keyOf(entry: Uint8Array): string {
  const [tag = 0] = entry;
  if (tag >> 3 !== 1) return '';
  let end = 1;
  while (entry[end]! >= 128) end++;
  end++;
  if ((tag & 7) === fieldType.bytes) {
    let length = 0;
    for (let at = end - 1; at >= 1; at--) length = length * 128 + (entry[at]! & 127);
    return Buffer.from(entry.buffer, entry.byteOffset + end, length).toString('latin1');
  }
  return Buffer.from(entry.buffer, entry.byteOffset, end).toString('latin1');
}

function grown(column: Int32Array, size: number = 2 * column.length): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(size);
  larger.set(column);
  return larger;
}
