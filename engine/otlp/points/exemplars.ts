/** Exemplars of OTLP, as typed rows of the series that they belong to. */
import { exemplarNanos, exemplarRunesMax, valueOfExemplar } from '../../typed/exemplar.ts';
import { exemplarsMax } from '../../write_decoder/core.ts';
import type { WriteDecoderExemplars } from '../../write_decoder/write_decoder.ts';
import { attributesIn, Refused } from '../labels/attributes.ts';
import * as layout from '../wire/layout.ts';
import { millisAt } from '../wire/time.ts';
import { Malformed, Places, type Wire } from '../wire/wire.ts';

/** Bytes of an ID as it is, and as the hexadecimal text of JSON. */
const traceIdBytes = 16;
const spanIdBytes = 8;

/** Of one part of a body. */
export class Exemplars {
  #slots: number[] = [];
  #generations: number[] = [];
  #nanos: bigint[] = [];
  #values: Uint8Array[] = [];
  #leftOutCount = 0;
  readonly #places = new Places();

  clear(): void {
    this.#slots = [];
    this.#generations = [];
    this.#nanos = [];
    this.#values = [];
    this.#leftOutCount = 0;
  }

  /**
   * Takes the one in [at, end); one that is none is left out.
   * @param pointMillis its time where it says none
   * @param slotOf series of its value
   */
  take(
    wire: Wire,
    at: number,
    end: number,
    pointMillis: number,
    slotOf: (value: number) => number,
    generationOf: (slot: number) => number,
  ): void {
    if (this.#slots.length === exemplarsMax) {
      this.#leftOutCount += 1;
      return;
    }
    const places = this.#places;
    if (!this.#isRead(wire, at, end)) {
      this.#leftOutCount += 1;
      return;
    }
    const { double, int, time } = layout.exemplar;
    const { view } = wire;
    const value = places.has(double)
      ? view.getFloat64(places.value[double]!, true)
      : Number(view.getBigInt64(places.value[int]!, true));
    const ownMillis = places.has(time) ? millisAt(view, places.value[time]!) : 0;
    const millis = ownMillis === 0 ? pointMillis : ownMillis;
    const labels = this.#labels(wire, at, end);
    const bits = new BigUint64Array(Float64Array.of(value).buffer)[0]!;
    const bytes = valueOfExemplar(bits, labels);
    const slot = slotOf(value);
    this.#slots.push(slot);
    this.#generations.push(generationOf(slot));
    this.#nanos.push(exemplarNanos(BigInt(millis), bytes));
    this.#values.push(bytes);
  }

  #isRead(wire: Wire, at: number, end: number): boolean {
    const places = this.#places;
    try {
      places.read(wire, at, end, layout.exemplarTypes);
    } catch (error) {
      if (error instanceof Malformed) return false;
      throw error;
    }
    return places.has(layout.exemplar.double) || places.has(layout.exemplar.int);
  }

  /** IDs of trace and span, and attributes where all of them have no more characters than Prometheus takes. */
  #labels(wire: Wire, at: number, end: number): { name: Uint8Array; value: Uint8Array }[] {
    const places = this.#places;
    const { traceId, spanId, attributes } = layout.exemplar;
    const ids: [string, string][] = [];
    const idOf = (number: number, bytes: number): string =>
      places.has(number)
        ? idText(wire.bytes.subarray(places.value[number]!, places.end[number]!), bytes)
        : '';
    const [trace, span] = [idOf(traceId, traceIdBytes), idOf(spanId, spanIdBytes)];
    if (trace !== '') ids.push(['trace_id', trace]);
    if (span !== '') ids.push(['span_id', span]);
    let all = ids;
    if (places.has(attributes)) {
      try {
        const more = attributesIn(wire, at, end, attributes);
        const joined = [...ids, ...more.map(({ key, value }) => [key, value] as [string, string])];
        if (joined.reduce((sum, texts) => sum + runesOf(texts), 0) <= exemplarRunesMax)
          all = joined;
      } catch (error) {
        if (!(error instanceof Refused || error instanceof Malformed)) throw error;
      }
    }
    return all
      .map(([name, value]) => ({ name: Buffer.from(name), value: Buffer.from(value) }))
      .sort((a, b) => Buffer.compare(a.name, b.name) || Buffer.compare(a.value, b.value));
  }

  get rows(): WriteDecoderExemplars | null {
    const rowCount = this.#slots.length;
    if (rowCount + this.#leftOutCount === 0) return null;
    let end = 0;
    return {
      rowCount,
      slots: Uint32Array.from(this.#slots),
      generations: Uint32Array.from(this.#generations),
      mayBeRefused: true,
      timestamps: BigInt64Array.from(this.#nanos),
      timeUnitNanos: 1,
      valueEnds: Uint32Array.from(this.#values, ({ length }) => (end += length)),
      valueBytes: new Uint8Array(Buffer.concat(this.#values)),
      bad: [],
      badCount: 0,
      leftOutCount: this.#leftOutCount,
    };
  }
}

function idText(id: Uint8Array, bytes: number): string {
  const text = Buffer.from(id);
  if (id.length === 2 * bytes) return text.toString('latin1').toLowerCase();
  return id.every((byte) => byte === 0) ? '' : text.toString('hex');
}

function runesOf(texts: readonly [string, string]): number {
  return texts.reduce((sum, text) => sum + Array.from(text).length, 0);
}
