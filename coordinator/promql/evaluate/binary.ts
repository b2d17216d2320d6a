/**
 * Binary operators between two vectors: matching by labels, set operators, and the errors of
 * ambiguous matches.
 */
import { sortPaced } from '#lib/turns/paced.ts';
import { absentBits, isAbsent, setAbsent } from '#engine/window_functions/row.ts';
import { changesMetric } from '../parse/ast.ts';
import type { VectorMatching } from '../parse/ast.ts';
import {
  type Cells,
  copyCells,
  copyHistogram,
  histogramBytesOf,
  makeCells,
} from '../rows/cells.ts';
import type { PromqlFeatures } from '../parse/features.ts';
import type { Context } from '../rows/context.ts';
import { executionError } from '../words/errors.ts';
import { LabelNames, type Labels } from '../rows/labels.ts';
import { labelsUnits, mapPaced, visitPaced } from '../rows/paced.ts';
import type { BinaryPlan } from '../plan/plan.ts';
import {
  loadPrepared,
  materialize,
  Matrix,
  mergeSameLabels,
  notReady,
  Rows,
  sameLabelset,
} from '../rows/rows.ts';
import { areIncompatible, type CellsOperand, RowOperator } from './row_operator.ts';

/** Key by which rows of the two sides match. */
function signatureOf(matching: VectorMatching): (labels: Labels) => string {
  if (matching.on) {
    const names = new LabelNames(matching.labels);
    return (labels) => labels.keyOn(names);
  }
  const ignored = new Set(matching.labels);
  return (labels) => labels.keyWithout(ignored);
}

/** The labels by which they match, for messages. */
function matchGroup(matching: VectorMatching, labels: Labels): Labels {
  if (matching.on) return labels.keep(new LabelNames(matching.labels));
  return labels.drop(new Set(matching.labels));
}

async function groupBySignature(
  rows: Rows,
  signature: (labels: Labels) => string,
  { pacer }: Context,
): Promise<Map<string, number[]>> {
  const groups = new Map<string, number[]>();
  const add = (labels: Labels, index: number): void => {
    const key = signature(labels);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [index]);
    else group.push(index);
  };
  await visitPaced(rows.labels, add, pacer.work);
  return groups;
}

export async function evaluateSetOperator(
  plan: BinaryPlan,
  left: Rows,
  right: Rows,
  context: Context,
): Promise<Rows> {
  const { pacer } = context;
  const signature = signatureOf(plan.matching!);
  const { stepCount } = left;
  if (plan.operator === 'or') {
    return evaluateOr(await materialize(left, pacer), right, signature, context);
  }
  const leftGroups = await groupBySignature(left, signature, context);
  const presence = await presenceBySignature(right, signature, leftGroups, context);
  const wanted = plan.operator === 'and';
  const indexes: number[] = [];
  const masks: (Uint8Array | null)[] = [];
  const choose = (labels: Labels, index: number): void => {
    const mask = presence.get(signature(labels)) ?? null;
    if (mask === null && wanted) return;
    indexes.push(index);
    masks.push(mask);
  };
  await visitPaced(left.labels, choose, pacer.work);
  if (pacer.hold(indexes.length * stepCount)) await pacer.room();
  const result = Matrix.unwritten(
    indexes.map((index) => left.labels[index]!),
    stepCount,
  );
  for (const [target, index] of indexes.entries()) {
    let at = left.load(index);
    if (at === notReady) at = await loadPrepared(left, index);
    if (pacer.take(histogramBytesOf(left.buffer, at, stepCount))) await pacer.room();
    copyCells(left.buffer, at, stepCount, result.buffer, target * stepCount);
    const mask = masks[target]!;
    if (mask !== null) {
      for (let step = 0; step < stepCount; step++) {
        if ((mask[step] === 1) !== wanted) {
          setAbsent(result.buffer.words, target * stepCount + step);
        }
      }
    }
    if (pacer.spend(stepCount)) await pacer.pause();
  }
  return result;
}

/** At which steps some row with the signature has a value. */
async function presenceBySignature(
  rows: Rows,
  signature: (labels: Labels) => string,
  wanted: ReadonlyMap<string, unknown>,
  context: Context,
): Promise<Map<string, Uint8Array>> {
  const presence = new Map<string, Uint8Array>();
  const { stepCount } = rows;
  for (let index = 0; index < rows.count; index++) {
    const key = signature(rows.labels[index]!);
    if (context.pacer.spend(labelsUnits)) await context.pacer.pause();
    if (!wanted.has(key)) continue;
    let mask = presence.get(key);
    if (mask === undefined) {
      if (context.pacer.take(stepCount)) await context.pacer.room();
      mask = new Uint8Array(stepCount);
      presence.set(key, mask);
    }
    let at = rows.load(index);
    if (at === notReady) at = await loadPrepared(rows, index);
    const { values, words } = rows.buffer;
    for (let step = 0; step < stepCount; step++) {
      const value = values[at + step]!;
      if (value === value || !isAbsent(words, at + step)) mask[step] = 1;
    }
    if (context.pacer.spend(stepCount)) await context.pacer.pause();
  }
  return presence;
}

async function evaluateOr(
  left: Matrix,
  rightRows: Rows,
  signature: (labels: Labels) => string,
  context: Context,
): Promise<Rows> {
  const { pacer } = context;
  const right = await materialize(rightRows, pacer);
  const { stepCount } = left;
  const rightGroups = await groupBySignature(right, signature, context);
  const presence = await presenceBySignature(left, signature, rightGroups, context);
  if (pacer.hold((left.count + right.count) * stepCount)) await pacer.room();
  const joined = Matrix.unwritten([...left.labels, ...right.labels], stepCount);
  for (const [side, firstRow] of [
    [left, 0],
    [right, left.count],
  ] as const) {
    for (let index = 0; index < side.count; index++) {
      const target = (firstRow + index) * stepCount;
      copyCells(side.buffer, index * stepCount, stepCount, joined.buffer, target);
      if (pacer.spend(stepCount)) await pacer.pause();
    }
  }
  for (let index = 0; index < right.count; index++) {
    const mask = presence.get(signature(right.labels[index]!));
    if (pacer.spend(labelsUnits)) await pacer.pause();
    if (mask === undefined) continue;
    const at = (left.count + index) * stepCount;
    for (let step = 0; step < stepCount; step++) {
      if (mask[step] === 1) setAbsent(joined.buffer.words, at + step);
    }
    if (pacer.spend(stepCount)) await pacer.pause();
  }
  return mergeSameLabels(joined, pacer);
}

/**
 * A matched pair of rows; the "many" side is the left one unless the cardinality says otherwise.
 */
interface Pair {
  /** -1: the number that stands for a missing row. */
  readonly many: number;
  readonly one: number;
  /** Signature by which they match. */
  readonly group: string;
  /** 1 at the steps at which a partner is missing; null of two rows. */
  readonly isMissing: Uint8Array | null;
}

/** Of a pair and of the labels that come of it, which have texts of their own only where they are asked for. */
const pairBytes = 256;

type RowGroups = ReadonlyMap<string, number[]>;

export async function evaluateVectorOperator(
  plan: BinaryPlan,
  leftRows: Rows,
  rightRows: Rows,
  context: Context,
): Promise<Rows> {
  const matching = plan.matching!;
  const swapped = matching.cardinality === 'one-to-many';
  let many = swapped ? rightRows : leftRows;
  let one = swapped ? leftRows : rightRows;
  const { pacer } = context;
  const signature = signatureOf(matching);
  let oneGroups = await groupBySignature(one, signature, context);
  let manyGroups = await groupBySignature(many, signature, context);
  const isOneToOne = matching.cardinality === 'one-to-one';
  const hasFills = matching.fillLeft !== null || matching.fillRight !== null;
  const hasTwins = hasSeveral(oneGroups);
  const isAmbiguous = hasTwins || (isOneToOne && hasShared(manyGroups, oneGroups));
  if (isAmbiguous || hasFills || !isOneToOne) {
    one = await materialize(one, pacer);
    oneGroups = await groupBySignature(one, signature, context);
  }
  if (isAmbiguous || hasFills) {
    many = await materialize(many, pacer);
    manyGroups = await groupBySignature(many, signature, context);
    if (hasTwins) await checkOneSide(plan, one, oneGroups, many, swapped, context);
    if (isOneToOne) await checkManySide(plan, many, manyGroups, one, oneGroups, context);
  }
  const pairs: Pair[] = [];
  for (const [key, manyIndexes] of manyGroups) {
    const oneIndexes = oneGroups.get(key);
    if (oneIndexes === undefined) continue;
    for (const manyIndex of manyIndexes) {
      for (const oneIndex of oneIndexes) {
        pairs.push({ many: manyIndex, one: oneIndex, group: key, isMissing: null });
      }
      if (pacer.take(pairBytes * oneIndexes.length)) await pacer.room();
      if (pacer.spend(labelsUnits * oneIndexes.length)) await pacer.pause();
    }
  }
  if (matching.fillRight !== null) {
    for (const each of await lonely(many, manyGroups, one, oneGroups, context)) {
      const { row, group, isMissing } = each;
      pairs.push({ many: row, one: -1, group, isMissing });
    }
  }
  if (matching.fillLeft !== null) {
    for (const each of await lonely(one, oneGroups, many, manyGroups, context)) {
      const { row, group, isMissing } = each;
      pairs.push({ many: -1, one: row, group, isMissing });
    }
  }
  const { work } = pacer;
  const sorted = await sortPaced(pairs, (a, b) => a.many - b.many, work);
  const labelsOf = resultLabels(plan, context.features);
  let areUnique = isOneToOne && !isAmbiguous && !hasFills && keepsLabelsUnique(plan);
  const labels = await mapPaced(
    sorted,
    ({ many: manyIndex, one: oneIndex }) => {
      // What tells them apart may go with the name.
      if (areUnique && many.labels[manyIndex]!.hasTypeOrUnit) areUnique = false;
      // What stands for a missing row has the labels by which it would have matched.
      const manyLabels = many.labels[manyIndex] ?? matchGroup(matching, one.labels[oneIndex]!);
      return labelsOf(manyLabels, one.labels[oneIndex] ?? matchGroup(matching, manyLabels));
    },
    work,
  );
  const rows = new PairRows(plan, labels, sorted, many, one, swapped, context);
  if (areUnique) return rows;
  return mergeMatches(rows, sorted, many, one, context);
}

interface Lonely {
  readonly row: number;
  /** Its signature. */
  readonly group: string;
  readonly isMissing: Uint8Array;
}

/** Rows that have no partner at some step, and at which. */
async function lonely(
  rows: Rows,
  groups: RowGroups,
  others: Rows,
  otherGroups: RowGroups,
  { pacer }: Context,
): Promise<Lonely[]> {
  const { stepCount } = rows;
  const found: Lonely[] = [];
  for (const [key, indexes] of groups) {
    const partners = otherGroups.get(key) ?? [];
    const isMissing = new Uint8Array(stepCount);
    if (pacer.take(stepCount)) await pacer.room();
    for (let step = 0; step < stepCount; step++) {
      isMissing[step] = partners.some((other) => present(others, other, step)) ? 0 : 1;
    }
    if (pacer.spend(stepCount * (1 + partners.length))) await pacer.pause();
    if (!isMissing.includes(1)) continue;
    for (const row of indexes) found.push({ row, group: key, isMissing });
  }
  return found;
}

function hasSeveral(groups: RowGroups): boolean {
  for (const indexes of groups.values()) if (indexes.length > 1) return true;
  return false;
}

/** Whether some signature with several rows here has a partner on the other side. */
function hasShared(groups: RowGroups, others: RowGroups): boolean {
  for (const [key, indexes] of groups) if (indexes.length > 1 && others.has(key)) return true;
  return false;
}

/**
 * One-to-one results differ by signature, so their labels do too when the signature is what stays.
 */
function keepsLabelsUnique(plan: BinaryPlan): boolean {
  return (
    plan.matching!.on ||
    plan.returnBool ||
    changesMetric(plan.operator) ||
    plan.matching!.include.length === 0
  );
}

function present(rows: Rows, index: number, step: number): boolean {
  return !isAbsent(rows.buffer.words, index * rows.stepCount + step);
}

/**
 * Two rows of the "one" side with one signature may not have values at a step at which the other side has any, matched or
 * not.
 */
async function checkOneSide(
  plan: BinaryPlan,
  one: Rows,
  groups: RowGroups,
  many: Rows,
  swapped: boolean,
  { pacer }: Context,
): Promise<void> {
  const { stepCount } = one;
  const { fillLeft, fillRight } = plan.matching!;
  const isAsked = new Uint8Array(stepCount);
  if (fillLeft !== null || fillRight !== null) isAsked.fill(1);
  for (let index = 0; index < many.count; index++) {
    for (let step = 0; step < stepCount; step++) if (present(many, index, step)) isAsked[step] = 1;
    if (pacer.spend(stepCount)) await pacer.pause();
  }
  for (const indexes of groups.values()) {
    if (indexes.length < 2) continue;
    for (let step = 0; step < stepCount; step++) {
      if (isAsked[step] === 0) continue;
      if (pacer.spend(indexes.length)) await pacer.pause();
      const [first, second] = indexes.filter((index) => present(one, index, step));
      if (second === undefined) continue;
      const group = matchGroup(plan.matching!, one.labels[first!]!).toString();
      const found = [one.labels[first!]!, one.labels[second]!]
        .map((labels) => labels.toString())
        .sort()
        .join(', ');
      throw executionError(
        `found duplicate series for the match group ${group} on the ${swapped ? 'left' : 'right'} hand-side of the operation: [${found}];many-to-many matching not allowed: matching labels must be unique on one side`,
      );
    }
  }
}

const severalMatches =
  'multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)';
const sameGroupLabels = 'multiple matches for labels: grouping labels must ensure unique matches';

/** Without group_left two rows of one side may not match the same row at one step. */
async function checkManySide(
  plan: BinaryPlan,
  many: Rows,
  groups: RowGroups,
  one: Rows,
  partners: RowGroups,
  { pacer }: Context,
): Promise<void> {
  const { fillRight } = plan.matching!;
  const filled = fillRight === null ? null : constantOperand(fillRight, many.stepCount);
  for (const [key, indexes] of groups) {
    const partner = partners.get(key) ?? [];
    if (indexes.length < 2 || (partner.length === 0 && filled === null)) continue;
    const operands = indexes.map((index) => operandOf(many, index));
    const others = partner.map((index) => operandOf(one, index));
    for (let step = 0; step < many.stepCount; step++) {
      const other = others.find((operand) => isPresent(operand, step)) ?? filled;
      if (pacer.spend(2 * (operands.length + others.length))) await pacer.pause();
      if (other === null) continue;
      const isMatch = (operand: CellsOperand): boolean =>
        isPresent(operand, step) && !areIncompatible(plan.operator, operand, other, step);
      const count = operands.filter(isMatch).length;
      if (count > 1) {
        throw executionError(severalMatches);
      }
    }
  }
}

function resultLabels(
  plan: BinaryPlan,
  { delayedNameRemoval }: PromqlFeatures,
): (many: Labels, one: Labels) => Labels {
  const matching = plan.matching!;
  const losesName = plan.returnBool && delayedNameRemoval;
  const dropsName = changesMetric(plan.operator) || (plan.returnBool && !losesName);
  const ignored = new Set(matching.labels);
  const kept = new LabelNames(matching.labels);
  const included = new Set(matching.include);
  return (many, one) => {
    let labels = many;
    if (matching.cardinality === 'one-to-one') {
      labels = matching.on ? labels.keep(kept) : labels.dropOnly(ignored);
    }
    if (dropsName) labels = labels.withoutName();
    if (included.size > 0) labels = labels.withOf(included, one);
    return labels.losingName(losesName);
  };
}

function isPresent({ words, at }: CellsOperand, step: number): boolean {
  return !isAbsent(words!, at + step);
}

function operandAt({ values, words, histograms }: Cells, at: number): CellsOperand {
  return { values, words, histograms, at };
}

/** A number at all steps. */
function constantOperand(value: number, stepCount: number): CellsOperand {
  const row = makeCells(stepCount);
  row.values.fill(value);
  return operandAt(row, 0);
}

/** A row that is ready. */
function operandOf(rows: Rows, index: number): CellsOperand {
  const at = rows.load(index);
  return operandAt(rows.buffer, at);
}

class PairRows extends Rows {
  readonly #plan: BinaryPlan;
  readonly #operator: RowOperator;
  readonly #pairs: readonly Pair[];
  readonly #many: Rows;
  readonly #one: Rows;
  readonly #swapped: boolean;
  #filled: Cells | null = null;
  #loaded: [left: CellsOperand, right: CellsOperand] | null = null;

  constructor(
    plan: BinaryPlan,
    labels: readonly Labels[],
    pairs: readonly Pair[],
    many: Rows,
    one: Rows,
    swapped: boolean,
    { annotations }: Context,
  ) {
    const { stepCount } = many;
    const loadSteps = many.loadSteps + one.loadSteps + stepCount;
    super(labels, stepCount, makeCells(stepCount), { loadSteps, isMadeAnew: true });
    this.#plan = plan;
    this.#operator = new RowOperator(plan, annotations);
    this.#pairs = pairs;
    this.#many = many;
    this.#one = one;
    this.#swapped = swapped;
  }

  load(index: number): number {
    const { many, one, isMissing } = this.#pairs[index]!;
    const manySide = this.#side(this.#many, many, isMissing);
    const oneSide = this.#side(this.#one, one, isMissing);
    if (manySide === null || oneSide === null) return notReady;
    const [left, right] = this.#swapped ? [oneSide, manySide] : [manySide, oneSide];
    const kept = this.#plan.returnBool ? null : left;
    this.#operator.apply(left, right, kept, this.buffer, this.stepCount);
    this.#loaded = [left, right];
    return 0;
  }

  get isOneToOne(): boolean {
    return this.#plan.matching!.cardinality === 'one-to-one';
  }

  /** Of the row that was loaded last. */
  areIncompatible(step: number): boolean {
    const [left, right] = this.#loaded!;
    return areIncompatible(this.#plan.operator, left, right, step);
  }

  /** @returns null when the row has to be prepared */
  #side(rows: Rows, index: number, isMissing: Uint8Array | null): CellsOperand | null {
    if (index < 0) return this.#fill(rows === this.#many ? 'fillLeft' : 'fillRight', isMissing!);
    const at = rows.load(index);
    return at === notReady ? null : operandAt(rows.buffer, at);
  }

  /** The number at the steps at which it stands for a row. */
  #fill(side: 'fillLeft' | 'fillRight', isMissing: Uint8Array): CellsOperand {
    const row = (this.#filled ??= makeCells(this.stepCount));
    row.bits.fill(absentBits);
    const value = this.#plan.matching![side]!;
    for (let step = 0; step < this.stepCount; step++) {
      if (isMissing[step] === 1) row.values[step] = value;
    }
    return operandAt(row, 0);
  }

  async prepare(index: number): Promise<void> {
    const pair = this.#pairs[index]!;
    if (pair.many >= 0) await this.#many.prepare(pair.many);
    if (pair.one >= 0) await this.#one.prepare(pair.one);
  }
}

/**
 * Results whose labels are the same become one row. Two matches of a group at one step are an error even where
 * a comparison filters their values away, two values of several groups are one.
 */
async function mergeMatches(
  rows: PairRows,
  pairs: readonly Pair[],
  many: Rows,
  one: Rows,
  context: Context,
): Promise<Rows> {
  const { stepCount } = rows;
  const indexesOfKey = new Map<string, number[]>();
  const add = ({ key }: Labels, index: number): void => {
    const indexes = indexesOfKey.get(key);
    if (indexes === undefined) indexesOfKey.set(key, [index]);
    else indexes.push(index);
  };
  await visitPaced(rows.labels, add, context.pacer.work);
  if (indexesOfKey.size === rows.count) return rows;
  if (context.pacer.hold(indexesOfKey.size * stepCount)) await context.pacer.room();
  const result = await Matrix.makePaced(
    [...indexesOfKey.values()].map((indexes) => rows.labels[indexes[0]!]!),
    stepCount,
    context.pacer,
  );
  const numberOfGroup = new Map<string, number>();
  const groups = await mapPaced(
    pairs,
    ({ group }) => {
      const number = numberOfGroup.get(group) ?? numberOfGroup.size + 1;
      numberOfGroup.set(group, number);
      return number;
    },
    context.pacer.work,
  );
  let target = 0;
  for (const indexes of indexesOfKey.values()) {
    // The group that has matched last at each step.
    const matched = new Uint32Array(stepCount);
    const byGroup = (a: number, b: number): number => groups[a]! - groups[b]!;
    for (const index of await sortPaced(indexes, byGroup, context.pacer.work)) {
      const pair = pairs[index]!;
      let at = rows.load(index);
      if (at === notReady) at = await loadPrepared(rows, index);
      // Both are ready with it.
      const manyAt = pair.many < 0 ? -1 : many.load(pair.many);
      const oneAt = pair.one < 0 ? -1 : one.load(pair.one);
      const isThere = (rows: Rows, rowAt: number, step: number): boolean =>
        rowAt < 0 ? pair.isMissing![step] === 1 : !isAbsent(rows.buffer.words, rowAt + step);
      for (let step = 0; step < stepCount; step++) {
        if (!isThere(many, manyAt, step) || !isThere(one, oneAt, step)) continue;
        const bits = rows.buffer.bits[at + step]!;
        if (bits === absentBits && rows.areIncompatible(step)) continue;
        if (matched[step] === groups[index]) {
          throw executionError(rows.isOneToOne ? severalMatches : sameGroupLabels);
        }
        matched[step] = groups[index]!;
        if (bits === absentBits) continue;
        const cell = target * stepCount + step;
        if (result.buffer.bits[cell] !== absentBits) throw sameLabelset();
        result.buffer.bits[cell] = bits;
        copyHistogram(rows.buffer, at + step, result.buffer, cell);
      }
      if (context.pacer.spend(stepCount)) await context.pacer.pause();
    }
    target++;
  }
  return result;
}
