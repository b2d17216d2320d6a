/** Mapping rules of paths, as Carbon's rules become (docs/LINES.md, Which resolutions a path has). */
import {
  type AggregationType,
  aggregationTypeOf,
  isWindowType,
  type WindowType,
  windowTypes,
} from '../aggregation_types.ts';
import { pathCondition, type WrittenCondition } from '../path_condition.ts';
import type { MappingRule, StoragePolicy } from '../rules.ts';
import { badRequest, shownText } from '#lib/errors.ts';

export interface PathRule {
  readonly name: string;
  readonly condition: WrittenCondition;
  /** Empty where the rule says no more than how rows are read. */
  readonly storagePolicies: readonly StoragePolicy[];
  readonly aggregations: readonly AggregationType[];
}

/**
 * @param place of the text of the condition, for the error
 * @throws {TsdbError} BAD_REQUEST naming place, reason and text
 */
export function mappingRuleOfPath(
  { name, condition, storagePolicies, aggregations }: PathRule,
  place: string,
): MappingRule {
  const path = pathCondition(condition, place);
  // Files of who runs the process are read at its start, where nobody waits.
  path.check();
  return {
    name,
    filterText: '',
    filter: path.implied,
    tags: [],
    path,
    // Nobody else has the path at a resolution that is not named, in M3 or in Graphite.
    onlyNamed: storagePolicies.length > 0,
    drop: 'none',
    aggregations,
    storagePolicies,
  };
}

/** @throws {TsdbError} BAD_REQUEST naming place, reason and name */
export function typeOfWindows(name: string, place: string): WindowType {
  const type = aggregationTypeOf(name);
  if (type !== null && isWindowType(type)) return type;
  throw badRequest(
    `${place}: not one of ${windowTypes.join(', ').toLowerCase()}, which windows have: ${shownText(name)}`,
  );
}
