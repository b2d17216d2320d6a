/** M3's rules of Carbon (`coordinator.carbon.ingester.rules`): the first that matches a path says at which resolutions it is kept. */
import type { MappingRule, StoragePolicy } from '../rules.ts';
import { checkStoragePolicies, storagePoliciesOf } from '../sets/file.ts';
import { Fields } from '../../fields.ts';
import { badRequest } from '#lib/errors.ts';
import { mappingRuleOfPath, typeOfWindows } from './path_rules.ts';

/**
 * @param value a list, as of YAML
 * @param path of what it is in, for errors
 * @throws {TsdbError} BAD_REQUEST naming field, reason and value
 */
export function mappingRulesOfIngester(value: unknown, path: string): MappingRule[] {
  const parent = Fields.of({ rules: value }, path);
  return parent.list('rules', ruleOf);
}

function ruleOf(fields: Fields, order: number): MappingRule {
  const kinds = (['pattern', 'contains'] as const).filter((kind) => fields.has(kind));
  const [kind] = kinds;
  if (kind === undefined || kinds.length > 1) {
    throw badRequest(`${fields.path}: not one of pattern and contains: ${kinds.length} of them`);
  }
  const text = fields.string(kind, '');
  const continues = fields.boolean('continue', false);
  const aggregation = fields.object('aggregation') ?? Fields.of({}, `${fields.path}.aggregation`);
  const isEnabled = aggregation.boolean('enabled', true);
  const typeName = aggregation.string('type', 'mean');
  aggregation.end();
  const storagePolicies: readonly StoragePolicy[] = storagePoliciesOf(fields, 'policies');
  fields.end();
  checkStoragePolicies(storagePolicies, `${fields.path}.policies`);
  const type = typeOfWindows(typeName, `${aggregation.path}.type`);
  return mappingRuleOfPath(
    {
      name: `carbon.ingester.rules[${order}]`,
      condition: { kind, text, order, continues },
      storagePolicies,
      // What M3 writes as it came has in each window the row that was written last.
      aggregations: [isEnabled ? type : 'Last'],
    },
    `${fields.path}.${kind}`,
  );
}
