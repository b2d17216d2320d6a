/** Tags that a request wants written otherwise than its body has them: M3's `Map-Tags-JSON`. */
import { Fields } from '#cluster/fields.ts';
import type { WriteDecoder, WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { parseJson } from '#lib/json/text.ts';
import { decodeTags, encodeTags, type Tag, tagNameProblem, type TagRules } from '#lib/tags.ts';
import { firstKind, type Renamed, RenamedSeries } from './renamed_series.ts';
import { pickedRows } from './writing/dropped_rows.ts';
import type { BodyRows } from './writing/parts.ts';

/** Changes of one request; more are refused. */
const changesMax = 64;
/** Texts of headers of which it is remembered what they make of series; one more, and all begins anew. */
const mappingsMax = 4;
/** A body is looked at so often at most: each time something has become known. */
const looksMax = 8;

/** To the tags of a series, by name. */
type Change = (tags: Map<string, string>) => void;

/** What a text of the header makes of series. */
export class TagMapping {
  readonly #series: RenamedSeries;

  constructor(decoder: WriteDecoder, changes: readonly Change[]) {
    this.#series = new RenamedSeries(decoder, (canonical) => changedBy(changes, canonical));
  }

  /**
   * Rows of a body as those of the series that they become.
   * @param decode reads the body; called again when its columns do not hold any more
   * @throws {TsdbError} RESOURCE_EXHAUSTED when there is no room for its series
   */
  body(decode: () => WriteDecoderRows): WriteDecoderRows {
    for (let look = 0; look < looksMax; look++) {
      const body = decode();
      const { histograms, exemplars } = body;
      const all = [body, histograms, exemplars].filter((columns) => columns !== null);
      const slots = this.#series.unknownOf(all);
      if (slots.size === 0) {
        const renamed = <Rows extends typeof body | typeof histograms | typeof exemplars>(
          rows: Rows,
        ): Rows => (rows === null ? rows : this.#series.renamed(rows));
        return {
          ...renamed(body),
          histograms: renamed(histograms),
          exemplars: renamed(exemplars),
        };
      }
      this.#series.add(slots);
    }
    throw new TsdbError('RESOURCE_EXHAUSTED', 'there is no room for the series of this body');
  }

  /** The same of rows that cannot be decoded once more. */
  rows(rows: BodyRows): BodyRows {
    const slots = this.#series.unknownOf([rows]);
    if (slots.size === 0) return this.#series.renamed(rows);
    const places = Uint32Array.from({ length: rows.rowCount }, (_, row) => row);
    const held = pickedRows(rows, places);
    this.#series.add(slots);
    return this.#series.renamed(held);
  }
}

/** Null where nothing changes. */
function changedBy(changes: readonly Change[], canonical: Uint8Array): Renamed | null {
  const before = decodeTags(canonical);
  const tags = new Map(before.map(({ name, value }) => [name, value]));
  // A name that stands twice is refused, whatever else becomes of the series.
  if (tags.size < before.length) return null;
  for (const change of changes) change(tags);
  const after: Tag[] = [...tags].map(([name, value]) => ({ name, value }));
  const bytes = encodeTags(after);
  return Buffer.compare(bytes, canonical) === 0 ? null : { kind: firstKind, tags: bytes };
}

/** Mappings by the texts of headers. */
export class TagMappings {
  readonly #decoder: WriteDecoder;
  readonly #tagRules: TagRules;
  readonly #mappings = new Map<string, TagMapping>();

  constructor(decoder: WriteDecoder, tagRules: TagRules) {
    this.#decoder = decoder;
    this.#tagRules = tagRules;
  }

  /**
   * @param text `{tagMappers: [{write: {tag, value}}, {drop: {tag}}, {dropWithValue: {tag, value}}, {replace: {tag, old, new}}]}`,
   *   its bytes as characters of Latin-1
   * @throws {TsdbError} BAD_REQUEST
   */
  of(text: string): TagMapping {
    const known = this.#mappings.get(text);
    if (known !== undefined) return known;
    const changes = changesOf(text, this.#tagRules);
    if (this.#mappings.size === mappingsMax) this.#mappings.clear();
    const mapping = new TagMapping(this.#decoder, changes);
    this.#mappings.set(text, mapping);
    return mapping;
  }
}

function changesOf(text: string, tagRules: TagRules): Change[] {
  const value = parseJson(Buffer.from(text, 'latin1'), { valuesMax: 10 * changesMax });
  const fields = Fields.of(value, '');
  const changes = fields.list('tagMappers', (each) => changeOf(each, tagRules));
  fields.end();
  if (changes.length > changesMax) {
    throw badRequest(`tagMappers: more than ${changesMax}: ${changes.length}`);
  }
  return changes;
}

function changeOf(fields: Fields, tagRules: TagRules): Change {
  const [write, drop, dropWithValue, replace] = [
    fields.object('write'),
    fields.object('drop'),
    fields.object('dropWithValue'),
    fields.object('replace'),
  ];
  fields.end();
  const given = [write, drop, dropWithValue, replace].filter((each) => each !== null);
  if (given.length !== 1) {
    throw badRequest(
      `${fields.path}: not exactly one of write, drop, dropWithValue and replace: ${given.length}`,
    );
  }
  const [only] = given;
  const tag = required(only!, 'tag');
  if (drop !== null) {
    drop.end();
    return (tags) => tags.delete(tag);
  }
  if (dropWithValue !== null) {
    const value = required(dropWithValue, 'value');
    dropWithValue.end();
    return (tags) => {
      if (tags.get(tag) === value) tags.delete(tag);
    };
  }
  if (replace !== null) {
    const [old, next] = [required(replace, 'old'), required(replace, 'new')];
    replace.end();
    return (tags) => {
      if (tags.get(tag) === old) tags.set(tag, next);
    };
  }
  const value = required(write!, 'value');
  write!.end();
  const problem = tagNameProblem(tag, tagRules);
  if (problem !== null) throw badRequest(`${write!.path}.tag: ${problem}: ${shownText(tag)}`);
  return (tags) => tags.set(tag, value);
}

function required(fields: Fields, key: string): string {
  const text = fields.string(key, '');
  if (text === '') throw badRequest(`${fields.path}.${key}: missing`);
  return text;
}
