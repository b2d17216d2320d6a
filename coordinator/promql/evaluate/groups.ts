/** The groups of an aggregation, and what all of its operators do with them. */
import type { Work } from '#lib/turns/turns.ts';
import type { Grouping } from '../parse/ast.ts';
import type { Span } from '../words/position.ts';
import type { AggregatePlan } from '../plan/plan.ts';
import { dropHistograms } from '../rows/cells.ts';
import type { Context } from '../rows/context.ts';
import { LabelNames, Labels } from '../rows/labels.ts';
import { labelsUnits } from '../rows/paced.ts';
import { MappedRows, materialize, type Matrix, type Rows } from '../rows/rows.ts';

export interface Groups {
  /** Group of each row. */
  readonly groupOfRow: Uint32Array;
  readonly labels: readonly Labels[];
}

export async function groupRows(rows: Rows, grouping: Grouping, work: Work): Promise<Groups> {
  const groupOfRow = new Uint32Array(rows.count);
  const labels: Labels[] = [];
  const indexOfKey = new Map<string, number>();
  const names = new LabelNames(grouping.labels);
  const dropped = new Set(grouping.labels);
  if (!grouping.without && names.list.length === 0) {
    return { groupOfRow, labels: rows.count === 0 ? [] : [Labels.empty] };
  }
  const group = (label: Labels, row: number): void => {
    const key = grouping.without ? label.keyWithout(dropped) : label.keyOn(names);
    let index = indexOfKey.get(key);
    if (index === undefined) {
      index = labels.length;
      indexOfKey.set(key, index);
      labels.push(grouping.without ? label.drop(dropped) : label.keep(names));
    }
    if (label.losesName) labels[index] = labels[index]!.losingName(true);
    groupOfRow[row] = index;
  };
  for (let row = 0; row < rows.count; row++) {
    group(rows.labels[row]!, row);
    if (work.spend(labelsUnits)) await work.pause();
  }
  return { groupOfRow, labels };
}

/** All values in memory, histograms left out and told of. */
export async function materializeFloats(
  plan: AggregatePlan,
  rows: Rows,
  span: Span,
  context: Context,
): Promise<Matrix> {
  const floats = new MappedRows(rows, rows.labels, (row) => {
    if (dropHistograms(row)) noteIgnored(plan, span, context);
  });
  return materialize(floats, context.pacer);
}

/** Rows of each group, for operators that need all values of a step at once. */
export function rowsByGroup(groups: Groups): number[][] {
  const members: number[][] = groups.labels.map(() => []);
  groups.groupOfRow.forEach((group, row) => members[group]!.push(row));
  return members;
}

/** Histograms have no place in an order. */
export function noteIgnored(
  { operator }: AggregatePlan,
  span: Span,
  { annotations }: Context,
): void {
  annotations.info(`ignored histogram in ${operator} aggregation`, span);
}
