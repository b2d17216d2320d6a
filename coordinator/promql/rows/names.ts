/** Metric names, which most functions and operators take from their series: at once, or at the end of the query. */
import type { Plan } from '../plan/plan.ts';
import type { Context } from './context.ts';
import { mapPaced } from './paced.ts';
import { mergeSameLabels, RelabelledRows, type SameLabels } from './rows.ts';
import type { Rows } from './rows.ts';

/**
 * The same rows without metric names, and without the types and units that describe them. Series that become the same are
 * merged.
 * @param origin what made the rows: when it selects by one name, no two series can become the same
 * @param sameLabels what two series with the same labels may have
 */
export async function withoutNames(
  rows: Rows,
  origin: Plan,
  { pacer, features }: Context,
  sameLabels: SameLabels = 'at other steps',
): Promise<Rows> {
  const { work } = pacer;
  if (features.delayedNameRemoval) {
    const marked = await mapPaced(rows.labels, (label) => label.losingName(true), work);
    return new RelabelledRows(rows, marked);
  }
  let hasTypeOrUnit = false;
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
  return mergeSameLabels(relabelled, pacer, sameLabels);
}

/** The same, but types and units stay: Prometheus has it so for statistics of histograms. */
export async function withoutNamesAlone(rows: Rows, origin: Plan, context: Context): Promise<Rows> {
  const { pacer, features } = context;
  if (features.delayedNameRemoval) return withoutNames(rows, origin, context);
  const labels = await mapPaced(rows.labels, (label) => label.withoutNameAlone(), pacer.work);
  const relabelled = new RelabelledRows(rows, labels);
  return hasOneName(origin) ? relabelled : mergeSameLabels(relabelled, pacer);
}

/** At the end: without the names of those that were to lose them. */
export async function withoutLostNames(rows: Rows, { pacer, features }: Context): Promise<Rows> {
  if (!features.delayedNameRemoval) return rows;
  const labels = await mapPaced(
    rows.labels,
    (label) => (label.losesName ? label.withoutName() : label),
    pacer.work,
  );
  return mergeSameLabels(new RelabelledRows(rows, labels), pacer);
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
