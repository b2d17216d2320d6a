/** Carbon's storage-schemas.conf: the first section whose pattern is in a path says at which resolutions it is kept, and how long. */
import type { MappingRule, StoragePolicy } from '../rules.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { mappingRuleOfPath } from './path_rules.ts';
import { type Option, type Section, sectionsOf } from './sections.ts';

const secondsOfUnit: readonly (readonly [name: string, seconds: bigint])[] = [
  ['seconds', 1n],
  ['minutes', 60n],
  ['hours', 3_600n],
  ['days', 86_400n],
  ['weeks', 604_800n],
  ['years', 31_536_000n],
];

/** Archives of a section; more are refused. */
const archivesMax = 32;

/**
 * @param path of the file, for errors
 * @throws {TsdbError} BAD_REQUEST naming file, line, section, reason and value
 */
export function mappingRulesOfSchemas(text: string, path: string): MappingRule[] {
  const schemas = sectionsOf(text, path).map(schemaOf);
  checkPriorities(schemas);
  return schemas.map(({ section, pattern, storagePolicies }, order) =>
    mappingRuleOfPath(
      {
        name: `storage-schemas [${section.name}]`,
        condition: { kind: 'pattern', text: pattern.value, order, continues: false },
        storagePolicies,
        aggregations: [],
      },
      pattern.place,
    ),
  );
}

interface Schema {
  readonly section: Section;
  readonly pattern: Option;
  readonly priority: Option | null;
  readonly storagePolicies: readonly StoragePolicy[];
}

function schemaOf(section: Section): Schema {
  const pattern = section.pattern();
  const priority = section.take('priority');
  if (priority !== null && !/^-?\d{1,9}$/.test(priority.value)) {
    throw badRequest(`${priority.place}: not a whole number: ${shownText(priority.value)}`);
  }
  const storagePolicies = archivesOf(section.need('retentions'));
  section.end();
  return { section, pattern, priority, storagePolicies };
}

/** Carbon 1 goes by the order of the file, and passes priorities over by which old releases went: both have to say the same. */
function checkPriorities(schemas: readonly Schema[]): void {
  const priorityOf = ({ priority }: Schema): number => Number(priority?.value ?? 0);
  for (const [at, schema] of schemas.entries()) {
    const before = schemas[at - 1];
    if (before === undefined || priorityOf(schema) <= priorityOf(before)) continue;
    throw badRequest(
      `${schema.pattern.place}: a priority of ${priorityOf(schema)} is more than that of [${before.section.name}] before it, ${priorityOf(before)}: sections count in the order of the file, as in Carbon 1; put them in that order`,
    );
  }
}

/** The finest first; each of the others is kept longer than the one before. */
function archivesOf({ value, place }: Option): StoragePolicy[] {
  const archives = value.split(',').map((each) => archiveOf(each.trim(), place));
  if (archives.length > archivesMax)
    throw badRequest(`${place}: more than ${archivesMax} archives`);
  archives.sort((a, b) => Number(a.resolutionNanos - b.resolutionNanos));
  for (const [at, { resolutionNanos, retentionNanos }] of archives.entries()) {
    const before = archives[at - 1];
    if (retentionNanos <= resolutionNanos) {
      throw badRequest(
        `${place}: an archive is not kept longer than its step: ${shownText(value)}`,
      );
    }
    if (before === undefined) continue;
    if (resolutionNanos === before.resolutionNanos || retentionNanos <= before.retentionNanos) {
      throw badRequest(
        `${place}: an archive is not both coarser and kept longer than the one before: ${shownText(value)}`,
      );
    }
  }
  return archives;
}

/** `10s:6h`; a bare number is of seconds, and behind the colon of steps. */
function archiveOf(text: string, place: string): StoragePolicy {
  const [step, kept, ...others] = text.split(':');
  const stepSeconds = secondsOf(step ?? '');
  const retentionSeconds = /^\d{1,12}$/.test(kept ?? '')
    ? stepSeconds === null
      ? null
      : BigInt(kept!) * stepSeconds
    : secondsOf(kept ?? '');
  if (stepSeconds === null || retentionSeconds === null || others.length > 0) {
    throw badRequest(`${place}: not as 10s:6h or 60:1440: ${shownText(text)}`);
  }
  if (stepSeconds === 0n || retentionSeconds > retentionSecondsMax) {
    throw badRequest(`${place}: a step of 0, or longer than 200 years: ${shownText(text)}`);
  }
  return {
    resolutionNanos: stepSeconds * 1_000_000_000n,
    retentionNanos: retentionSeconds * 1_000_000_000n,
  };
}

const retentionSecondsMax = 200n * 31_536_000n;

/** Null when it is no time. */
function secondsOf(text: string): bigint | null {
  const [, digits, unit] = /^(\d{1,12})([a-z]*)$/.exec(text) ?? [];
  if (digits === undefined) return null;
  const seconds = secondsOfUnit.find(([name]) => name.startsWith(unit!))?.[1];
  return seconds === undefined ? null : BigInt(digits) * seconds;
}
