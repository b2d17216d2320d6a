/**
 * A namespace of messages as the query engines' storage: each series of it is one for every numeric field, which the
 * label `__field__` names by its path, and one without that label for what are no messages in it, as rows of before it
 * had a schema.
 */
import type { Schemas } from '#cluster/namespaces/schemas.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { withRegexps } from '#engine/aside/regexps.ts';
import { type NumericField, numericFieldsOf } from '#engine/messages/numeric_fields.ts';
import type { MessageType } from '#engine/messages/schema.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { QueryRegexps } from '#lib/regexp/regexps.ts';
import { compareTexts } from '#lib/text_order.ts';
import { unitePaced } from '#lib/turns/paced.ts';
import { allFieldSeries, fieldLabel, type FieldSelection, fieldSeries } from './field_series.ts';
import { distinctSeries, joinedSeries } from './join.ts';
import { partialWarning } from './namespace_source.ts';
import type {
  LabelResult,
  Matcher,
  SeriesSource,
  SelectLimits,
  SelectRange,
  SelectResult,
} from './storage.ts';

/** Matchers of the series as they are stored, and what of them is asked for. */
interface Split {
  readonly others: readonly Matcher[];
  readonly selection: FieldSelection;
}

const nothing: SelectResult = {
  bundle: emptyBundle,
  exhaustive: true,
  warnings: [],
};
const noLabels: LabelResult = { values: [], exhaustive: true, warnings: [] };
/** Says in an answer that rows are missing, since this process has not heard of their schema. */
export const laterSchemaWarning =
  'messages of a schema that is not known here yet were left out: the key-value store is behind, or away';
/** About what a test of a path takes, in units of work (lib/turns/turns.ts). */
const testUnits = 100;

export class MessageSource implements SeriesSource {
  readonly #stored: SeriesSource;
  readonly #schemas: Schemas;
  readonly #rank: number;
  readonly #turningOf: (signal: AbortSignal) => Turning;

  /**
   * @param stored the namespace as it is stored
   * @param rank of two namespaces that have a field of a series at one time the higher one counts
   */
  constructor(
    stored: SeriesSource,
    schemas: Schemas,
    rank: number,
    turningOf: (signal: AbortSignal) => Turning,
  ) {
    this.#stored = stored;
    this.#schemas = schemas;
    this.#rank = rank;
    this.#turningOf = turningOf;
  }

  async select(
    matchers: readonly Matcher[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const { others, selection } = await this.#split(matchers, signal);
    if (isEmpty(selection)) return nothing;
    const found = await this.#stored.select(others, range, limits, signal);
    return this.#expanded(found, selection, range, limits, signal);
  }

  async #expanded(
    found: SelectResult,
    selection: FieldSelection,
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    const { work } = this.#turningOf(signal);
    let isBehind = false;
    const typeOf = (layout: number): MessageType | null => {
      if (this.#schemas.isLater(layout)) isBehind = true;
      return this.#schemas.typeOf(layout);
    };
    const { bundle } = found;
    const reading = { typeOf, version: this.#rank };
    const fields = await fieldSeries(bundle, selection, reading, range, limits, work);
    const result = cutResult(found, fields);
    if (!isBehind) return result;
    return { ...result, warnings: [...result.warnings, laterSchemaWarning] };
  }

  selectAny(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    return this.#any(matcherLists, limits, signal, async (questions, selection) => {
      const found = await this.#stored.selectAny(questions, range, limits, signal);
      return this.#expanded(found, selection, range, limits, signal);
    });
  }

  series(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<SelectResult> {
    // A series that several lists ask for is answered once.
    const known = new Set<string>();
    const { work } = this.#turningOf(signal);
    return this.#any(matcherLists, limits, signal, async (questions, selection) => {
      const found = await this.#stored.series(questions, range, limits, signal);
      return cutResult(found, await allFieldSeries(found.bundle, selection, known, limits, work));
    });
  }

  /** @param ask for series of lists that ask for the same fields */
  async #any(
    matcherLists: readonly (readonly Matcher[])[],
    limits: SelectLimits,
    signal: AbortSignal,
    ask: (
      questions: readonly (readonly Matcher[])[],
      selection: FieldSelection,
    ) => Promise<SelectResult>,
  ): Promise<SelectResult> {
    const lists = matcherLists.length === 0 ? [[]] : matcherLists;
    // Lists that ask for the same fields are one question.
    const byFields = new Map<string, Split[]>();
    for (const matchers of lists) {
      const split = await this.#split(matchers, signal);
      if (isEmpty(split.selection)) continue;
      const { fields, withOthers } = split.selection;
      const key = JSON.stringify([withOthers, fields.map(({ path }) => path)]);
      const same = byFields.get(key);
      if (same === undefined) byFields.set(key, [split]);
      else same.push(split);
    }
    const results: SelectResult[] = [];
    for (const splits of byFields.values()) {
      const questions = splits.map(({ others }) => others);
      results.push(await ask(questions, splits[0]!.selection));
    }
    if (results.length === 0) return nothing;
    const joined = await joinedSeries(results, limits, signal);
    // With its samples a series that is asked for in two ways is there twice.
    return results.length === 1 ? joined : distinctSeries(joined, this.#turningOf(signal).work);
  }

  async labelNames(
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    const { questions, fields } = await this.#questions(matcherLists, signal);
    if (questions === null) return noLabels;
    const found = await this.#stored.labelNames(questions, range, limits, signal);
    if (found.values.length === 0 || fields.length === 0) return found;
    const { work } = this.#turningOf(signal);
    const values = await unitePaced([fieldLabel], found.values, compareTexts, work);
    return { ...found, values };
  }

  async labelValues(
    name: string,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    const { questions, fields } = await this.#questions(matcherLists, signal);
    if (questions === null) return noLabels;
    if (name !== fieldLabel) {
      return this.#stored.labelValues(name, questions, range, limits, signal);
    }
    if (fields.length === 0) return noLabels;
    const one = { ...limits, seriesMax: 1, requireExhaustive: false };
    const { bundle } = await this.#stored.series(questions, range, one, signal);
    return bundle.seriesCount === 0 ? noLabels : { ...noLabels, values: fields };
  }

  async joinedValues(
    names: readonly string[],
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
    limits: SelectLimits,
    signal: AbortSignal,
  ): Promise<LabelResult> {
    const { questions } = await this.#questions(matcherLists, signal);
    if (questions === null) return noLabels;
    return this.#stored.joinedValues(names, questions, range, limits, signal);
  }

  /**
   * What to ask of the namespace as it is stored, null for nothing, and the paths of all fields that are asked for,
   * sorted.
   */
  async #questions(
    matcherLists: readonly (readonly Matcher[])[],
    signal: AbortSignal,
  ): Promise<{
    readonly questions: readonly (readonly Matcher[])[] | null;
    readonly fields: readonly string[];
  }> {
    const lists = matcherLists.length === 0 ? [[]] : matcherLists;
    const questions: (readonly Matcher[])[] = [];
    const paths = new Set<string>();
    for (const matchers of lists) {
      const { others, selection } = await this.#split(matchers, signal);
      if (isEmpty(selection)) continue;
      questions.push(others);
      for (const { path } of selection.fields) paths.add(path);
    }
    if (questions.length === 0) return { questions: null, fields: [] };
    return { questions, fields: [...paths].sort(compareTexts) };
  }

  async #split(matchers: readonly Matcher[], signal: AbortSignal): Promise<Split> {
    const own = matchers.filter(({ name }) => name === fieldLabel);
    const others = matchers.filter(({ name }) => name !== fieldLabel);
    const all = fieldsOf(this.#schemas.shown);
    if (own.length === 0) return { others, selection: { fields: all, withOthers: true } };
    const turning = this.#turningOf(signal);
    const tests = await withRegexps(turning, (regexps) => testsOf(own, regexps));
    const fields: NumericField[] = [];
    for (const field of all) {
      if (tests.every((matches) => matches(field.path))) fields.push(field);
      if (turning.work.spend(tests.length * testUnits)) await turning.work.pause();
    }
    return { others, selection: { fields, withOthers: tests.every((matches) => matches('')) } };
  }
}

function cutResult(
  found: SelectResult,
  { bundle, isCut }: { readonly bundle: SeriesBundle; readonly isCut: boolean },
): SelectResult {
  if (!isCut) return { ...found, bundle };
  const warnings = [...new Set([...found.warnings, partialWarning])];
  return { bundle, exhaustive: false, warnings };
}

function isEmpty({ fields, withOthers }: FieldSelection): boolean {
  return fields.length === 0 && !withOthers;
}

const knownFields = new WeakMap<MessageType, readonly NumericField[]>();

function fieldsOf(type: MessageType): readonly NumericField[] {
  let fields = knownFields.get(type);
  if (fields === undefined) {
    fields = numericFieldsOf(type);
    knownFields.set(type, fields);
  }
  return fields;
}

function testsOf(
  matchers: readonly Matcher[],
  regexps: QueryRegexps,
): readonly ((text: string) => boolean)[] {
  const tests = matchers.map(({ kind, value }): ((text: string) => boolean) => {
    if (kind === '=') return (text) => text === value;
    if (kind === '!=') return (text) => text !== value;
    const regexp = regexps.find(value);
    const isWanted = kind === '=~';
    return (text) => regexp!.test(text) === isWanted;
  });
  regexps.checkFound();
  return tests;
}
