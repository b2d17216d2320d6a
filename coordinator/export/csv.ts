/**
 * Rows as CSV with columns of the asker's choice, as VictoriaMetrics exports them: names of labels, `__value__`, and
 * `__timestamp__` with a form of time behind a colon. A line a sample, without a head.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import type { Tags } from '#lib/tags.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { secondsText } from '../ingest/writing/refusals.ts';
import { type ExportRows, pieceCharacters } from './rows.ts';
import { valueText } from './value_text.ts';

/** Columns of a line. */
const columnsMax = 100;

const timeForms: ReadonlyMap<string, (millis: number) => string> = new Map<
  string,
  (millis: number) => string
>([
  ['unix_ms', (millis) => String(millis)],
  ['unix_s', (millis) => secondsText(BigInt(millis) * nanosPerMilli)],
  ['unix_ns', (millis) => String(BigInt(millis) * nanosPerMilli)],
  ['rfc3339', (millis) => new Date(millis).toISOString()],
]);

type Column =
  | { readonly kind: 'label'; readonly name: string }
  | { readonly kind: 'value' }
  | { readonly kind: 'time'; readonly text: (millis: number) => string };

export class CsvLines {
  readonly contentType: string = 'text/csv; charset=utf-8';
  readonly #columns: readonly Column[];
  /** Of the series: texts of its labels; null where the row has its own. */
  #fields: readonly (string | null)[] = [];

  /**
   * @param text columns with commas between them
   * @param name of the parameter that has them
   * @throws {TsdbError} BAD_REQUEST
   */
  constructor(text: string, name: string) {
    if (text === '') {
      throw badRequest(
        `${name}: missing; columns of CSV are labels, __value__ and __timestamp__, for example __name__,job,__timestamp__:unix_ms,__value__`,
      );
    }
    const columns = text.split(',');
    if (columns.length > columnsMax) {
      throw badRequest(`${name}: more than ${columnsMax} columns: ${columns.length}`);
    }
    this.#columns = columns.map((column) => columnOf(column.trim(), name));
  }

  /** Rows as text, in pieces: labels that are long are in each row. */
  *texts({ tags, isFirst, rowCount, millis, values, valueWords }: ExportRows): Generator<string> {
    if (isFirst) this.#fields = this.#columns.map((column) => labelField(column, tags));
    let text = '';
    for (let row = 0; row < rowCount; row++) {
      for (const [at, column] of this.#columns.entries()) {
        if (at > 0) text += ',';
        if (column.kind === 'label') text += this.#fields[at]!;
        else if (column.kind === 'time') text += column.text(millis[row]!);
        else text += valueText(values[row]!, valueWords[2 * row]!, valueWords[2 * row + 1]!);
      }
      text += '\n';
      if (text.length < pieceCharacters) continue;
      yield text;
      text = '';
    }
    yield text;
  }

  /** A line more would be a sample for who reads them. */
  end(): string {
    return '';
  }
}

function columnOf(text: string, parameter: string): Column {
  if (text === '') throw badRequest(`${parameter}: a column is empty`);
  if (text === '__value__') return { kind: 'value' };
  const [name, form] = text.split(':', 2) as [string, string?];
  if (name !== '__timestamp__') return { kind: 'label', name: text };
  const timeText = timeForms.get(form ?? 'unix_ms');
  if (timeText !== undefined) return { kind: 'time', text: timeText };
  const forms = [...timeForms.keys()].join(', ');
  throw badRequest(`${parameter}: __timestamp__ has one of the forms ${forms}: ${shownText(text)}`);
}

function labelField(column: Column, tags: Tags): string | null {
  if (column.kind !== 'label') return null;
  const value = tags.find(({ name }) => name === column.name)?.value ?? '';
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
