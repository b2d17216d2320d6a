/** Metrics of OTLP as families: their names here, and their metadata. */
import type { MetricType } from '../../typed/metadata.ts';
import { type ToldMetadata, toldMetadata } from '../../write_decoder/told_metadata.ts';

export interface Family extends ToldMetadata {
  /** '' for one that can have none. */
  readonly name: string;
  readonly unit: string;
  /** Why its points are refused; '' when they are not. */
  readonly problem: string;
  readonly isDelta: boolean;
  /** Part of a body in which it came last; null for none. */
  seenIn: object | null;
}

export function familyOf(
  name: string,
  type: MetricType,
  help: string,
  unit: string,
  isDelta: boolean,
  problem: string,
): Family {
  const told = toldMetadata(name, type, help, unit);
  return { ...told, name, unit, problem, isDelta, seenIn: null };
}
