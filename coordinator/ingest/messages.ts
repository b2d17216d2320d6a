/** Messages on their way in: made by the schema of their namespace, and put beside the slots of their series. */
import { MessageEncoder } from '#engine/messages/canonical.ts';
import { type JsonValue, wireFromJson } from '#engine/messages/json.ts';
import type { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { encodeTags, type Tag, type TagRules, tagsProblem } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import {
  type IngestNamespace,
  type IngestNamespaces,
  namedOf,
  type WriteOfKind,
} from './writing/namespaces.ts';
import { type BodyRows, partEnd, typedPartEnd } from './writing/parts.ts';
import { type BadRows, seriesText } from './writing/refusals.ts';
import { Renewal } from './renewal.ts';

export interface IngestMessage {
  /** In any order; checked by who takes them. */
  readonly tags: readonly Tag[];
  readonly timestampNanos: bigint;
  /** By protobuf's rules (engine/messages/json.ts). */
  readonly json: JsonValue;
}

interface EncodedMessage {
  /** Canonical. */
  readonly tags: Uint8Array;
  readonly timestampNanos: bigint;
  readonly value: Uint8Array;
}

const encoder = new MessageEncoder();

/** Units of work (lib/turns/turns.ts) that a message takes, and each of its bytes. */
const messageUnits = 2_000;
const byteUnits = 8;

export class Messages {
  readonly #decoder: WriteDecoder;
  readonly #ready: IngestNamespaces['ready'];
  readonly #renewal: Renewal;
  readonly #tagRules: TagRules;

  /** @param tagRules those of the decoder's verdicts */
  constructor(
    decoder: WriteDecoder,
    namespaces: IngestNamespaces,
    clock: Pick<Clock, 'deadline' | 'sleep'>,
    tagRules: TagRules,
  ) {
    this.#decoder = decoder;
    this.#ready = () => namespaces.ready();
    this.#renewal = new Renewal((signal) => namespaces.refresh(signal), clock);
    this.#tagRules = tagRules;
  }

  /**
   * Messages by the newest schema of their namespace.
   * @param named the namespace that is meant; null when there is only one with a schema
   * @param report is told of those that are bad, which are left out
   * @throws {TsdbError} UNAVAILABLE when the namespace that is meant is not ready
   */
  async encoded(
    messages: readonly IngestMessage[],
    named: string | null,
    report: BadRows,
    work: Work,
  ): Promise<WriteOfKind> {
    // A schema may have been deployed a moment ago, through another coordinator: who meets what is not known here
    // looks once.
    let isRenewed = false;
    const renew = async (): Promise<void> => {
      isRenewed = true;
      await this.#renewal.renew();
      work.signal.throwIfAborted();
    };
    if (this.#takers(named).length !== 1) await renew();
    let taker = this.#taker(named);
    const good: EncodedMessage[] = [];
    for (const { tags, timestampNanos, json } of messages) {
      let value: Uint8Array | string = this.#valueOf(tags, json, taker);
      if (typeof value === 'string' && !isRenewed) {
        await renew();
        taker = this.#taker(named);
        value = this.#valueOf(tags, json, taker);
      }
      if (typeof value === 'string') report.addSample(`${seriesText(tags)}: ${value}`);
      else good.push({ tags: encodeTags(tags), timestampNanos, value });
      if (work.spend(messageUnits + byteUnits * value.length)) await work.pause();
    }
    const namespaces = typeof taker === 'string' ? [] : [taker];
    return { namespaces, registry: null, parts: messageParts(good, this.#decoder) };
  }

  /** The value, or why there is none. */
  #valueOf(
    tags: readonly Tag[],
    json: JsonValue,
    taker: IngestNamespace | string,
  ): Uint8Array | string {
    const problem = tagsProblem(tags, this.#tagRules);
    if (problem !== null) return problem;
    if (typeof taker === 'string') return taker;
    const { number, type } = taker.schemas!.current;
    try {
      return encoder.encode(wireFromJson(json, type), type, number);
    } catch (error) {
      if (error instanceof TsdbError) return error.message;
      throw error;
    }
  }

  #takers(named: string | null): readonly IngestNamespace[] {
    return namedOf(this.#ready(), named).filter(({ schemas }) => schemas !== null);
  }

  /** The namespace that takes them, or why there is none. */
  #taker(named: string | null): IngestNamespace | string {
    const [first, ...others] = this.#takers(named);
    if (first === undefined) {
      const where = named === null ? 'no ready namespace has' : `namespace ${named} does not have`;
      return `value: an object, and ${where} a schema`;
    }
    if (others.length === 0) return first;
    const names = [first, ...others].map(({ name }) => name).join(', ');
    return `value: an object, and several namespaces have a schema: name one (namespace=…): ${names}`;
  }
}

/** Rows by the write decoder, a part when it is asked for. */
function* messageParts(
  messages: readonly EncodedMessage[],
  decoder: WriteDecoder,
): Iterable<readonly BodyRows[]> {
  for (let first = 0, past = 0; first < messages.length; first = past) {
    const end = typedPartEnd(first, messages.length, (row) => messages[row]!.value.length);
    past = partEnd(first, end, (row) => messages[row]!.tags.length);
    const some = messages.slice(first, past);
    const {
      histograms: _,
      values: __,
      ...rows
    } = decoder.rows(some.map(({ tags, timestampNanos }) => ({ tags, timestampNanos, value: 0 })));
    let length = 0;
    const valueEnds = Uint32Array.from(some, ({ value }) => (length += value.length));
    const valueBytes = new Uint8Array(length);
    for (const [row, { value }] of some.entries()) {
      valueBytes.set(value, valueEnds[row]! - value.length);
    }
    yield [{ ...rows, valueEnds, valueBytes }];
  }
}
