/** Metric names, which most functions and operators take from their series. */
import type { Plan } from '../plan/plan.ts';
import { mapPaced } from '../rows/paced.ts';
import type { Pacer } from '../rows/pacer.ts';
import { RelabelledRows, mergeSameLabels } from '../rows/rows.ts';
import type { Rows } from '../rows/rows.ts';

/**
 * The same rows without metric names. Series that become the same are merged.
 * @param origin what made the rows: when it selects by one name, no two series can become the same
 */
export async function withoutNames(rows: Rows, origin: Plan, pacer: Pacer): Promise<Rows> {
  let hasTypeOrUnit = false;
  const { work } = pacer;
  const labels = await mapPaced(
    rows.labels,
    (label) => {
      hasTypeOrUnit ||= label.hasTypeOrUnit;
      return label.withoutName();
    },
    work,
  );
  const relabelled = new RelabelledRows(rows, labels);
  if (hasOneName(origin) && !hasTypeOrUnit) return relabelled;
  return mergeSameLabels(relabelled, pacer);
}

/**
 * Whether all series of the plan's result have the same metric name, or are without one already.
 */
function hasOneName(plan: Plan): boolean {
  if (plan.kind !== 'select' && plan.kind !== 'window') return false;
  const { source } = plan;
  return (
    source.kind === 'selector' &&
    source.matchers.some(({ name, kind }) => name === '__name__' && kind === '=')
  );
}
