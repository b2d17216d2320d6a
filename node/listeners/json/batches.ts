/** M3's raw calls: many rows, or many series, in one request; IDs, tags and names of namespaces in base64. */
import { TsdbError } from '#lib/errors.ts';
import { segmentsText } from './answers.ts';
import { type JsonBackend, type JsonRow, namespaceOf } from './backend.ts';
import { tagsOfM3 } from './encoded_tags.ts';
import type { JsonFields } from './fields.ts';
import { errorTypeOf, RowErrors } from './row_errors.ts';
import { datapointOf, nanosOf, rangeOf, timeTypeOf } from './requests.ts';
import { valueOf } from './values.ts';

/** Rows that are written at the same time: they share syncs of the commit log. */
const rowsAtOnce = 64;
/** Characters of an answer, which is not counted otherwise; more are refused. */
const answerLengthMax = 16 << 20;

type Read<Element> = (element: JsonFields, namespace: string) => Element;

/**
 * Elements of a batch, each with its namespace: that of the request, or in the second form the one whose number it names.
 * @param hasMany the request has `nameSpaces`, its elements their numbers
 */
function elementsOf<Element>(
  backend: JsonBackend,
  fields: JsonFields,
  hasMany: boolean,
  read: Read<Element>,
): Element[] {
  const names = hasMany ? fields.texts('nameSpaces') : [fields.text('nameSpace')];
  const namespaces = names.map((name) => namespaceOf(backend, name));
  const elements = fields.objects('elements').map((element) => {
    const number = hasMany ? Number(element.whole('nameSpace')) : 0;
    const namespace = namespaces[number];
    if (namespace === undefined) {
      throw element.bad('nameSpace', `is not the place of one of ${names.length} names`, number);
    }
    const result = read(element, namespace);
    element.end();
    return result;
  });
  fields.textOr('source', '');
  fields.end();
  return elements;
}

interface BatchRow {
  readonly namespace: string;
  readonly id: Uint8Array;
  readonly tags: () => Uint8Array;
  readonly datapoint: ReturnType<typeof datapointOf>;
}

/**
 * Writes rows, each for itself.
 * @throws {RowErrors} naming those that are not written, by their places
 */
export async function writeBatch(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
  { hasMany, isTagged }: { readonly hasMany: boolean; readonly isTagged: boolean },
): Promise<string> {
  const rows = elementsOf(backend, fields, hasMany, (element, namespace): BatchRow => {
    const id = element.base64('id');
    if (id.length === 0) throw element.bad('id', 'is empty', null);
    const encoded = isTagged ? element.base64('encodedTags') : Buffer.alloc(0);
    return { namespace, id, tags: () => tagsOfM3(encoded), datapoint: datapointOf(element) };
  });
  const errors: { index: number; error: TsdbError }[] = [];
  const write = async ({ namespace, id, tags, datapoint }: BatchRow, index: number) => {
    try {
      const value = await valueOf(backend, namespace, datapoint.value, signal);
      const row: JsonRow = { tags: tags(), id, nanos: datapoint.nanos, value };
      await backend.write(namespace, row, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof TsdbError)) throw error;
      errors.push({ index, error });
    }
  };
  for (let first = 0; first < rows.length; first += rowsAtOnce) {
    const some = rows.slice(first, first + rowsAtOnce);
    await Promise.all(some.map((row, i) => write(row, first + i)));
  }
  if (errors.length > 0) throw new RowErrors(errors, rows.length);
  return '{}\n';
}

/** Chunks of series by their IDs, as they are stored; in the order in which they were asked for. */
export async function fetchBatch(
  backend: JsonBackend,
  fields: JsonFields,
  signal: AbortSignal,
  { hasMany }: { readonly hasMany: boolean },
): Promise<string> {
  const wanted = hasMany ? rangesOfEach(backend, fields) : idsInOneRange(backend, fields);
  let text = '{"elements":[';
  for (const [i, { namespace, id, startNanos, endNanos }] of wanted.entries()) {
    let element: string;
    try {
      const range = { startNanos, endNanos };
      // Its chunks become text at once: their memory is given back before the next ones are read.
      const { bundle } = await backend.fetchById(namespace, id, range, signal, {});
      if (text.length + bundle.chunkData.length > answerLengthMax) throw tooLong();
      element = `{"segments":${bundle.seriesCount === 0 ? '[]' : segmentsText(bundle, 0)}}`;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof TsdbError) || error instanceof AnswerTooLong) throw error;
      const err = { type: errorTypeOf(error), message: error.message };
      element = `{"segments":[],"err":${JSON.stringify(err)}}`;
    }
    text += `${i === 0 ? '' : ','}${element}`;
    if (text.length > answerLengthMax) throw tooLong();
  }
  return `${text}]}\n`;
}

class AnswerTooLong extends TsdbError {}

function tooLong(): AnswerTooLong {
  return new AnswerTooLong(
    'BAD_REQUEST',
    `the answer is longer than ${answerLengthMax} characters: ask for fewer IDs, or for less time`,
  );
}

interface WantedSeries {
  readonly namespace: string;
  readonly id: Uint8Array;
  readonly startNanos: bigint;
  readonly endNanos: bigint;
}

function idsInOneRange(backend: JsonBackend, fields: JsonFields): WantedSeries[] {
  const namespace = namespaceOf(backend, fields.text('nameSpace'));
  const { startNanos, endNanos } = rangeOf(fields);
  const ids = fields.base64s('ids');
  fields.textOr('source', '');
  fields.end();
  return ids.map((id) => ({ namespace, id, startNanos, endNanos }));
}

function rangesOfEach(backend: JsonBackend, fields: JsonFields): WantedSeries[] {
  return elementsOf(backend, fields, true, (element, namespace) => {
    const type = timeTypeOf(element, 'rangeTimeType');
    const startNanos = nanosOf(element, 'rangeStart', type);
    const endNanos = nanosOf(element, 'rangeEnd', type);
    if (endNanos < startNanos) throw element.bad('rangeEnd', 'is before rangeStart', endNanos);
    return { namespace, id: element.base64('id'), startNanos, endNanos };
  });
}
