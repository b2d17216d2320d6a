/**
 * `info`: series get labels of info series such as `target_info`, of the same target, which `job` and `instance` name; as
 * Prometheus 3.15 has it.
 *
 * Which targets these are is known when the series have their values, so info series are read then, in a round of their
 * own: another way to the nodes and back. Read with all else they would be those of all targets, and an installation may
 * have ten thousand: a query over days would have all their rows sent and held to describe the one service that it is
 * about. Rows of info series are decoded one after the other, into one row of times; what is kept is which of them
 * describes a target from which step on, which seldom changes.
 */
import { withRegexps } from '#engine/aside/regexps.ts';
import { absentBits } from '#engine/window_functions/row.ts';
import { literalRegexp } from '#lib/regexp/literal.ts';
import { isDear, regexpLengthMax } from '#lib/regexp/regexp.ts';
import type { Tag } from '#lib/tags.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Work } from '#lib/turns/turns.ts';
import { type Matcher, type Resolution, windowsOf } from '../../select/storage.ts';
import { executionError } from '../words/errors.ts';
import type { Span } from '../words/position.ts';
import { selectRangeOf } from '../plan/fetches.ts';
import type { InfoPlan } from '../plan/plan.ts';
import { type Cells, copyCells, histogramOf, makeCells } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import { LabelNames, type Labels } from '../rows/labels.ts';
import { labelsUnits, mapPaced, visitPaced } from '../rows/paced.ts';
import type { Pacer } from '../rows/pacer.ts';
import type { Fetched } from '../rows/reads.ts';
import {
  hasValue,
  loadPrepared,
  materialize,
  type Matrix,
  mergeSameLabels,
  notReady,
  Rows,
} from '../rows/rows.ts';
import type { Evaluator } from '../rows/evaluator.ts';
import { SelectorRows } from '../windows/selector_rows.ts';

/** Together they name a target. */
const targetNames = new LabelNames(['job', 'instance']);

/** Values of a label that are longer together are not named in a read: quoted they could not be a regexp. */
const targetsLengthMax: number = regexpLengthMax / 2;

/** Of an info series in the lists of its target, of a description and of a label of it, and of a run of steps. */
const seriesBytes = 200;
const descriptionBytes = 200;
const tagBytes = 100;
const runBytes = 8;
/** Of a step while a target is described. */
const stepBytes = 40;

export async function evaluateInfo(plan: InfoPlan, evaluator: Evaluator): Promise<Rows> {
  const { context } = evaluator;
  // In memory, for rows without any value name no target, and one row may become several.
  const matrix = await materialize(await evaluator.vector(plan.input), context.pacer);
  const input = await Input.of(matrix, plan, context);
  const found = await lookUp(plan, input, context);
  const keepsUnknown = (await takenBy(plan.labelMatchers, [''], context)).length === 1;
  const results = new Results(plan, input, found.labels, keepsUnknown, context.pacer);
  return mergeSameLabels(await results.rows(found.courses), context.pacer);
}

/** What becomes of a row of the input. */
const role = { hasNoValue: 0, isInfo: 1, isDescribed: 2 } as const;

class Input {
  readonly matrix: Matrix;
  /** By row. */
  readonly roles: Uint8Array;
  /** By step, 1 where some row has a value. */
  readonly isPresent: Uint8Array;
  /** Keys of the targets of rows that are described. */
  readonly targets = new Set<string>();
  readonly targetValues = new TargetValues();

  private constructor(matrix: Matrix) {
    this.matrix = matrix;
    this.roles = new Uint8Array(matrix.count);
    this.isPresent = new Uint8Array(matrix.stepCount);
  }

  static async of(matrix: Matrix, { nameMatchers }: InfoPlan, context: Context): Promise<Input> {
    const { pacer } = context;
    const input = new Input(matrix);
    if (pacer.take(matrix.count + matrix.stepCount)) await pacer.room();
    const names = new Set(await mapPaced(matrix.labels, ({ name }) => name, pacer.work));
    const infoNames = new Set(await takenBy(nameMatchers, [...names], context));
    for (const [row, labels] of matrix.labels.entries()) {
      input.#add(row, labels, infoNames.has(labels.name));
      if (pacer.spend(labelsUnits + matrix.stepCount)) await pacer.pause();
    }
    return input;
  }

  #add(row: number, labels: Labels, isInfo: boolean): void {
    const { buffer, stepCount } = this.matrix;
    if (!hasValue(buffer, row * stepCount, stepCount)) return;
    for (let step = 0; step < stepCount; step++) {
      if (buffer.bits[row * stepCount + step] !== absentBits) this.isPresent[step] = 1;
    }
    this.roles[row] = isInfo ? role.isInfo : role.isDescribed;
    if (isInfo) return;
    this.targets.add(labels.keyOn(targetNames));
    this.targetValues.add(labels);
  }
}

/** The texts that all matchers take. */
async function takenBy(
  matchers: readonly Matcher[],
  texts: readonly string[],
  context: Context,
): Promise<readonly string[]> {
  let taken = texts;
  for (const matcher of matchers) taken = await takenByOne(matcher, taken, context);
  return taken;
}

async function takenByOne(
  { kind, value }: Matcher,
  texts: readonly string[],
  { aside, pacer }: Context,
): Promise<readonly string[]> {
  if (kind === '=') return texts.filter((text) => text === value);
  if (kind === '!=') return texts.filter((text) => text !== value);
  const { work } = pacer;
  const regexp = await withRegexps({ work, aside }, (regexps) => regexps.compile(value));
  const wanted = kind === '=~';
  if (texts.some((text) => isDear(regexp, text.length))) {
    const job = { kind: 'regexp', pattern: value, texts } as const;
    const matches = await work.outside(aside.run(job, work));
    return texts.filter((_, index) => (matches[index] === 1) === wanted);
  }
  const taken: string[] = [];
  for (const text of texts) {
    if (regexp.test(text) === wanted) taken.push(text);
    if (pacer.spend(regexp.units(text.length))) await pacer.pause();
  }
  return taken;
}

/**
 * Values of the labels that name targets, those with both labels, with one and with the other apart: whose info series are
 * looked at is any target of a value of each. These are more than there are rows of, as in Prometheus, where two info
 * series that contradict each other are an error all the same.
 */
class TargetValues {
  readonly #byPresence = new Map<string, { readonly [name in 'job' | 'instance']: Set<string> }>();

  add(labels: Labels): void {
    const [job, instance] = [labels.get('job'), labels.get('instance')];
    if (job === '' && instance === '') return;
    const presence = presenceOf(job, instance);
    const values = this.#byPresence.get(presence);
    if (values === undefined) {
      this.#byPresence.set(presence, { job: new Set([job]), instance: new Set([instance]) });
    } else {
      values.job.add(job);
      values.instance.add(instance);
    }
  }

  get isEmpty(): boolean {
    return this.#byPresence.size === 0;
  }

  has(labels: Labels): boolean {
    const [job, instance] = [labels.get('job'), labels.get('instance')];
    const values = this.#byPresence.get(presenceOf(job, instance));
    return values !== undefined && values.job.has(job) && values.instance.has(instance);
  }

  /** They take all series of these targets, and some of others. */
  async matchers(work: Work): Promise<Matcher[]> {
    const matchers: Matcher[] = [];
    for (const name of ['job', 'instance'] as const) {
      const values = new Set<string>();
      for (const each of this.#byPresence.values()) {
        await visitPaced([...each[name]], (value) => values.add(value), work);
      }
      const matcher = await matcherOf(name, [...values], work);
      if (matcher !== null) matchers.push(matcher);
    }
    return matchers;
  }
}

function presenceOf(job: string, instance: string): string {
  return `${job === ''}${instance === ''}`;
}

/**
 * For all these values, which takes no others unless they are too many to be named: then most info series are asked for
 * anyway. Null when it would take all that there are.
 */
async function matcherOf(
  name: string,
  values: readonly string[],
  work: Work,
): Promise<Matcher | null> {
  if (values.length === 1) return { name, kind: '=', value: values[0]! };
  let length = 0;
  for (const value of values) length += value.length + 1;
  if (length > targetsLengthMax) {
    return values.includes('') ? null : { name, kind: '!=', value: '' };
  }
  // The same regexp whenever a query is made again: nodes keep those of late.
  const sorted = await sortPaced(values, (a, b) => (a < b ? -1 : 1), work);
  const quoted = await mapPaced(sorted, literalRegexp, work);
  return { name, kind: '=~', value: quoted.join('|') };
}

interface Found {
  /** Of the info series, by their indexes. */
  readonly labels: readonly Labels[];
  /** By the keys of targets that rows of the input have. */
  readonly courses: ReadonlyMap<string, Course>;
}

async function lookUp(plan: InfoPlan, input: Input, context: Context): Promise<Found> {
  const { targetValues } = input;
  if (targetValues.isEmpty) return { labels: [], courses: new Map() };
  const ofTargets = await targetValues.matchers(context.pacer.work);
  const matchers = [...ofTargets, ...plan.labelMatchers, ...plan.nameMatchers];
  const range = selectRangeOf(plan.reference, plan.grid.stepCount);
  const windows = plan.of === null ? null : windowsOf(plan.of, 'last');
  const fetch = { matchers, range, windows, restriction: null, isThroughout: false };
  const [fetched] = await context.reads.read([fetch]);
  const courses = await new Targets(plan, input, fetched!, context).courses();
  context.reads.release(fetched!);
  return { labels: fetched!.labels, courses };
}

/** What is known of a target at a step: an info series of each metric at most. */
interface Description {
  /** Without its last series; null when it has none. */
  readonly before: Description | null;
  /** Index of that series. */
  readonly series: number;
  /** When they have been asked for. */
  labels: InfoLabels | null;
}

const nothingKnown: Description = { before: null, series: -1, labels: null };

interface InfoLabels {
  readonly tags: readonly Tag[];
  /** Names of those that two of the series have with different values. */
  readonly contradicted: readonly string[];
}

/** What is known of a target in the course of the steps. */
interface Course {
  /** Each once. */
  readonly descriptions: readonly Description[];
  /** First steps of runs with the same description, and the place of that. */
  readonly starts: Int32Array;
  readonly places: Int32Array;
}

/** Describes targets by their info series. */
class Targets {
  readonly #input: Input;
  readonly #fetched: Fetched;
  readonly #of: Resolution | null;
  readonly #span: Span;
  readonly #context: Context;
  readonly #pacer: Pacer;
  readonly #stepCount: number;
  readonly #times: SelectorRows;
  readonly #values: SelectorRows;
  readonly #newest: NewestSeries;
  /** By step, of the target at hand. */
  readonly #descriptions: Description[];
  /** Of the target at hand, what is known with one more series. */
  readonly #more = new Map<Description, Map<number, Description>>();

  constructor(
    { grid, reference, of, span }: InfoPlan,
    input: Input,
    fetched: Fetched,
    context: Context,
  ) {
    this.#input = input;
    this.#fetched = fetched;
    this.#of = of;
    this.#span = span;
    this.#context = context;
    this.#pacer = context.pacer;
    this.#stepCount = grid.stepCount;
    this.#times = SelectorRows.of('instantTime', fetched, reference, grid, [], context);
    this.#values = SelectorRows.of('instant', fetched, reference, grid, [], context);
    this.#newest = new NewestSeries(grid.stepCount);
    this.#descriptions = new Array<Description>(grid.stepCount);
  }

  /** By the keys of targets that rows of the input have. */
  async courses(): Promise<Map<string, Course>> {
    const pacer = this.#pacer;
    const held = stepBytes * this.#stepCount;
    if (pacer.take(held)) await pacer.room();
    const byTarget = await this.#seriesByTarget();
    const courses = new Map<string, Course>();
    for (const [key, byName] of byTarget) {
      await this.#describe(byName);
      if (!this.#input.targets.has(key)) continue;
      const course = courseOf(this.#descriptions);
      if (pacer.take(runBytes * course.starts.length)) await pacer.room();
      courses.set(key, course);
      if (pacer.spend(this.#stepCount)) await pacer.pause();
    }
    pacer.give(held);
    return courses;
  }

  async #seriesByTarget(): Promise<Map<string, Map<string, number[]>>> {
    const { labels, isTyped } = this.#fetched;
    const { targetValues } = this.#input;
    const byTarget = new Map<string, Map<string, number[]>>();
    for (const [index, each] of labels.entries()) {
      if (this.#pacer.spend(labelsUnits)) await this.#pacer.pause();
      if (!targetValues.has(each)) continue;
      if (isTyped?.[index] === 1) await this.#checkNumbers(index);
      if (this.#pacer.take(seriesBytes)) await this.#pacer.room();
      const key = each.keyOn(targetNames);
      let byName = byTarget.get(key);
      if (byName === undefined) byTarget.set(key, (byName = new Map<string, number[]>()));
      const ofName = byName.get(each.name);
      if (ofName === undefined) byName.set(each.name, [index]);
      else ofName.push(index);
    }
    return byTarget;
  }

  /** @throws {PromqlError} when a histogram stands where info metrics have their 1 */
  async #checkNumbers(index: number): Promise<void> {
    const at = await this.#load(this.#values, index);
    for (let step = 0; step < this.#stepCount; step++) {
      if (histogramOf(this.#values.buffer, at + step) === null) continue;
      const labels = this.#fetched.labels[index]!.toString();
      throw executionError(`this should be an info metric, with float samples: ${labels}`);
    }
  }

  async #load(rows: Rows, index: number): Promise<number> {
    let at = rows.load(index);
    if (at === notReady) at = await loadPrepared(rows, index);
    if (this.#pacer.spend(this.#stepCount)) await this.#pacer.pause();
    return at;
  }

  /** Puts what is known at each step into `#descriptions`. */
  async #describe(byName: ReadonlyMap<string, readonly number[]>): Promise<void> {
    this.#more.clear();
    this.#descriptions.fill(nothingKnown);
    for (const indexes of byName.values()) {
      this.#newest.clear();
      for (const index of this.#inOrder(indexes)) {
        const at = await this.#load(this.#times, index);
        this.#newest.add(index, this.#times.buffer, at);
      }
      const made = this.#addNewest();
      if (this.#pacer.take(descriptionBytes * made)) await this.#pacer.room();
      if (this.#pacer.spend(2 * this.#stepCount)) await this.#pacer.pause();
    }
  }

  /** Of windows of one time the first series is taken: the same whatever order they come in. */
  #inOrder(indexes: readonly number[]): readonly number[] {
    if (this.#of === null || indexes.length === 1) return indexes;
    const { labels } = this.#fetched;
    return [...indexes].sort((a, b) => labels[a]!.compare(labels[b]!));
  }

  /** @returns how many descriptions are new */
  #addNewest(): number {
    const { series, rivals } = this.#newest;
    let last: Description | null = null;
    let made = 0;
    for (let step = 0; step < this.#stepCount; step++) {
      const index = series[step]!;
      if (index < 0) continue;
      if (rivals[step]! >= 0 && this.#input.isPresent[step] === 1) this.#noteTwins(step);
      const before = this.#descriptions[step]!;
      // Mostly as at the step before.
      if (last === null || last.before !== before || last.series !== index) {
        let more = this.#more.get(before);
        if (more === undefined) this.#more.set(before, (more = new Map<number, Description>()));
        const known = more.get(index);
        last = known ?? { before, series: index, labels: null };
        if (known === undefined) {
          more.set(index, last);
          made++;
        }
      }
      this.#descriptions[step] = last;
    }
    return made;
  }

  /**
   * Windows of one time do not say which of two series came after the other, as they do when a target has another version:
   * one is taken, and that is told.
   * @throws {PromqlError} of samples
   */
  #noteTwins(step: number): void {
    if (this.#of === null) this.#failTwins(step);
    this.#context.annotations.warn(
      `info has one of two info series of a target that are in the same windows of ${this.#of.resolutionMillis / 1000} s`,
      this.#span,
    );
  }

  #failTwins(step: number): never {
    const { times, series, rivals } = this.#newest;
    const millis = Math.round(times[step]! * 1000);
    const { labels } = this.#fetched;
    const twins = [labels[series[step]!]!, labels[rivals[step]!]!];
    const [first, second] = twins.sort((a, b) => a.compare(b));
    throw executionError(
      `found duplicate series for info metric: existing ${first!.toString()} @ ${millis}, new ${second!.toString()} @ ${millis}`,
    );
  }
}

function courseOf(ofSteps: readonly Description[]): Course {
  const placeOf = new Map<Description, number>();
  const starts: number[] = [];
  const places: number[] = [];
  for (const [step, description] of ofSteps.entries()) {
    if (step > 0 && description === ofSteps[step - 1]) continue;
    let place = placeOf.get(description);
    if (place === undefined) placeOf.set(description, (place = placeOf.size));
    starts.push(step);
    places.push(place);
  }
  return {
    descriptions: [...placeOf.keys()],
    starts: Int32Array.from(starts),
    places: Int32Array.from(places),
  };
}

/** Of info series of one metric and target, at each step the one with the newest sample. */
class NewestSeries {
  /** In seconds. */
  readonly times: Float64Array;
  /** Their indexes; -1 for none. */
  readonly series: Int32Array;
  /** Others with a sample of the same time; -1 for none. */
  readonly rivals: Int32Array;

  constructor(stepCount: number) {
    this.times = new Float64Array(stepCount);
    this.series = new Int32Array(stepCount);
    this.rivals = new Int32Array(stepCount);
  }

  clear(): void {
    this.times.fill(-Infinity);
    this.series.fill(-1);
    this.rivals.fill(-1);
  }

  /** @param rows at `at` the times of the series' samples */
  add(index: number, { values }: Cells, at: number): void {
    const { times, series, rivals } = this;
    for (let step = 0; step < times.length; step++) {
      const time = values[at + step]!;
      // Also when it is absent.
      if (!(time >= times[step]!)) continue;
      if (time === times[step]) rivals[step] = index;
      else {
        times[step] = time;
        series[step] = index;
        rivals[step] = -1;
      }
    }
  }
}

/** A row of the input, or what of it has the same labels. */
interface ResultRow {
  readonly labels: Labels;
  readonly row: number;
  /** Null when it is the whole row. */
  readonly part: { readonly course: Course; readonly places: ReadonlySet<number> } | null;
}

/** Puts labels on the rows of the input. */
class Results {
  readonly #input: Input;
  readonly #infoLabels: readonly Labels[];
  /** Of the labels that are taken; null for all. */
  readonly #names: ReadonlySet<string> | null;
  readonly #keepsUnknown: boolean;
  readonly #pacer: Pacer;
  readonly #rows: ResultRow[] = [];

  /**
   * @param infoLabels of the info series, by their indexes
   * @param keepsUnknown whether rows stay where nothing is known of their target
   */
  constructor(
    { labelMatchers }: InfoPlan,
    input: Input,
    infoLabels: readonly Labels[],
    keepsUnknown: boolean,
    pacer: Pacer,
  ) {
    this.#input = input;
    this.#infoLabels = infoLabels;
    const names = labelMatchers.map(({ name }) => name);
    this.#names = names.length === 0 ? null : new Set(names);
    this.#keepsUnknown = keepsUnknown;
    this.#pacer = pacer;
  }

  async rows(courses: ReadonlyMap<string, Course>): Promise<Rows> {
    const { matrix, roles } = this.#input;
    const { stepCount } = matrix;
    const unknown = courseOf([nothingKnown]);
    for (const [row, labels] of matrix.labels.entries()) {
      if (roles[row] === role.isInfo) this.#rows.push({ labels, row, part: null });
      else if (roles[row] === role.isDescribed) {
        await this.#describe(row, labels, courses.get(labels.keyOn(targetNames)) ?? unknown);
      }
      if (this.#pacer.spend(labelsUnits)) await this.#pacer.pause();
    }
    const all = this.#rows.map(({ labels }) => labels);
    const areWhole = all.length === matrix.count && this.#rows.every(({ part }) => part === null);
    if (areWhole) return matrix.withLabels(all);
    if (this.#pacer.hold(stepCount)) await this.#pacer.room();
    return new DescribedRows(matrix, all, this.#rows);
  }

  async #describe(row: number, labels: Labels, course: Course): Promise<void> {
    const seen = this.#seenIn(row, course);
    if (this.#pacer.spend(this.#input.matrix.stepCount)) await this.#pacer.pause();
    const parts = new Map<string, { readonly labels: Labels; readonly places: Set<number> }>();
    let isWhole = true;
    for (const place of seen) {
      const described = await this.#described(labels, course.descriptions[place]!);
      if (described === null) {
        isWhole = false;
        continue;
      }
      const part = parts.get(described.key);
      if (part !== undefined) part.places.add(place);
      else parts.set(described.key, { labels: described, places: new Set([place]) });
    }
    isWhole &&= parts.size === 1;
    for (const part of parts.values()) {
      const { places } = part;
      this.#rows.push({ labels: part.labels, row, part: isWhole ? null : { course, places } });
    }
  }

  /** Places of what is known at the steps where the row has a value. */
  #seenIn(row: number, { starts, places }: Course): ReadonlySet<number> {
    const { buffer, stepCount } = this.#input.matrix;
    const seen = new Set<number>();
    for (const [run, from] of starts.entries()) {
      const place = places[run]!;
      if (seen.has(place)) continue;
      const to = starts[run + 1] ?? stepCount;
      if (hasValue(buffer, row * stepCount + from, to - from)) seen.add(place);
    }
    return seen;
  }

  /** Null when the row has no place in the result. */
  async #described(labels: Labels, description: Description): Promise<Labels | null> {
    if (description.before === null) return this.#keepsUnknown ? labels : null;
    if (description.labels === null) {
      description.labels = this.#labelsOf(description);
      const { tags } = description.labels;
      if (this.#pacer.take(tagBytes * tags.length)) await this.#pacer.room();
    }
    const { tags, contradicted } = description.labels;
    // What a row says of itself stays as it is.
    const own = new Set(labels.tags.map(({ name }) => name));
    const wrong = contradicted.find((name) => !own.has(name));
    if (wrong !== undefined) throw executionError(`conflicting label: ${wrong}`);
    const added = tags.filter(({ name }) => !own.has(name));
    if (this.#pacer.spend(labelsUnits)) await this.#pacer.pause();
    if (added.length === 0) return labels;
    if (this.#pacer.take(labels.bytesPlus(added))) await this.#pacer.room();
    return labels.plus(added);
  }

  #labelsOf(description: Description): InfoLabels {
    const tags = new Map<string, Tag>();
    const contradicted = new Set<string>();
    for (let each = description; each.before !== null; each = each.before) {
      this.#pacer.note(labelsUnits);
      for (const tag of this.#infoLabels[each.series]!.tags) {
        const { name, value } = tag;
        if (name === '__name__' || this.#names?.has(name) === false) continue;
        const before = tags.get(name);
        if (before === undefined) tags.set(name, tag);
        else if (before.value !== value) contradicted.add(name);
      }
    }
    return { tags: [...tags.values()], contradicted: [...contradicted] };
  }
}

/** Rows of a matrix, and parts of them. */
class DescribedRows extends Rows {
  readonly #matrix: Matrix;
  readonly #rows: readonly ResultRow[];
  /** For a part. */
  readonly #cells: Cells;

  constructor(matrix: Matrix, labels: readonly Labels[], rows: readonly ResultRow[]) {
    const { stepCount } = matrix;
    super(labels, stepCount, matrix.buffer, { loadSteps: stepCount });
    this.#matrix = matrix;
    this.#rows = rows;
    this.#cells = makeCells(stepCount);
  }

  load(index: number): number {
    const { row, part } = this.#rows[index]!;
    const { stepCount, buffer } = this.#matrix;
    const at = row * stepCount;
    this.buffer = part === null ? buffer : this.#cells;
    if (part === null) return at;
    this.#cells.bits.fill(absentBits);
    this.#cells.histograms = null;
    const { starts, places } = part.course;
    for (const [run, from] of starts.entries()) {
      if (!part.places.has(places[run]!)) continue;
      const to = starts[run + 1] ?? stepCount;
      copyCells(buffer, at + from, to - from, this.#cells, from);
    }
    return 0;
  }

  async prepare(): Promise<void> {}
}
