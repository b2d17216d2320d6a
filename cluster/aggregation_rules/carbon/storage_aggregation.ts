/** Carbon's storage-aggregation.conf: the first section whose pattern is in a path says what its rows come to. */
import type { AggregationType } from '../aggregation_types.ts';
import type { MappingRule } from '../rules.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { mappingRuleOfPath } from './path_rules.ts';
import { type Option, type Section, sectionsOf } from './sections.ts';

const typeOfMethod: ReadonlyMap<string, AggregationType> = new Map([
  ['average', 'Mean'],
  ['avg', 'Mean'],
  ['sum', 'Sum'],
  ['last', 'Last'],
  ['max', 'Max'],
  ['min', 'Min'],
  ['count', 'Count'],
]);

/** Of Carbon and its relatives, and why not. */
const reasonOfMethod: ReadonlyMap<string, string> = new Map([
  ['avg_zero', 'samples have no step, so nobody knows how many of them are missing'],
  ['absmax', 'windows do not have the value that is furthest from 0'],
  ['absmin', 'windows do not have the value that is nearest to 0'],
  ['median', 'windows have no quantiles'],
]);

/**
 * @param path of the file, for errors
 * @throws {TsdbError} BAD_REQUEST naming file, line, section, reason and value
 */
export function mappingRulesOfAggregation(text: string, path: string): MappingRule[] {
  return sectionsOf(text, path).map((section, order) => {
    const pattern = section.pattern();
    const type = typeOf(section.take('aggregationmethod'));
    checkFactor(section);
    section.end();
    return mappingRuleOfPath(
      {
        name: `storage-aggregation [${section.name}]`,
        condition: { kind: 'pattern', text: pattern.value, order, continues: false },
        storagePolicies: [],
        aggregations: [type],
      },
      pattern.place,
    );
  });
}

function typeOf(method: Option | null): AggregationType {
  if (method === null) return 'Mean';
  const { value, place } = method;
  const type = typeOfMethod.get(value.toLowerCase());
  if (type !== undefined) return type;
  const known = `not one of ${[...typeOfMethod.keys()].join(', ')}`;
  throw badRequest(
    `${place}: ${reasonOfMethod.get(value.toLowerCase()) ?? known}: ${shownText(value)}`,
  );
}

/** It hides what whisper rolls up from too few points, which nothing does here. */
function checkFactor(section: Section): void {
  const factor = section.take('xfilesfactor');
  if (factor === null) return;
  const number = Number(factor.value);
  if (number >= 0 && number <= 1) return;
  throw badRequest(`${factor.place}: not from 0 to 1: ${shownText(factor.value)}`);
}
