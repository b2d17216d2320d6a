/**
 * The configuration of a process: `-f file` (repeatable, later files over earlier ones), defaults,
 * and the two overrides of the environment. A mistake stops the start; all mistakes are listed at
 * once.
 *
 *     db:                                  coordinator:
 *       discovery: {type: tsdb_cluster,      listenAddress: 0.0.0.0:7201
 *         tsdbCluster: {endpoints: [...]}}   tagOptions: {idScheme: quoted}
 */
import { messageOf } from '../errors.ts';
import { resolveAggregator } from './resolve/aggregator.ts';
import { resolveCoordinator } from './resolve/coordinator.ts';
import { resolveDb } from './resolve/db.ts';
import { SectionReader, withBeside } from './resolve/reader.ts';
import { listenHostVariable } from './resolve/shared.ts';
import {
  checkAggregatorSection,
  checkCoordinatorSection,
  checkDbSection,
} from './schema/schema.ts';
import { type ConfigFile, readConfigFiles } from './resolve/text.ts';
import type { Config } from './resolve/types.ts';

export {
  dataDirectoryDefault,
  dataDirectoryDefaultVariable,
  dataDirectoryVariable,
} from './resolve/db.ts';
export { listenHostVariable } from './resolve/shared.ts';
export type { ConfigFile } from './resolve/text.ts';
export type { ListenAddress } from './schema/sections.ts';
export type {
  CarbonConfig,
  HaPairsConfig,
  StatsdConfig,
  StatsdSharingConfig,
  OtlpConfig,
  CarbonRulesConfig,
  OpenTsdbConfig,
  AggregatorConfig,
  ClientConfig,
  Config,
  CoordinatorConfig,
  DbConfig,
  DiscoveryConfig,
  HostIdConfig,
  SchemaConfig,
  TlsConfig,
} from './resolve/types.ts';

/** The configuration cannot be used; `problems` names every mistake with file and line. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the configuration has ${problems.length} problem(s):\n  ${problems.join('\n  ')}`);
    this.problems = problems;
  }
}

export type ConfigRole = 'node' | 'coordinator' | 'aggregator';

/** Of a role whose file may have its settings at the top. */
const sectionNames = ['coordinator', 'db', 'aggregator'];

/**
 * Reads configuration.
 *
 * @param role a coordinator's file, or an aggregator's, may have its settings at the top, without `coordinator:`
 * @throws {ConfigError} with all problems
 */
export function parseConfig(
  files: readonly ConfigFile[],
  role: ConfigRole,
  environment: Readonly<Record<string, string | undefined>>,
): Config {
  const problems: string[] = [];
  const tree = readConfigFiles(files, environment, problems);
  if (problems.length > 0) throw new ConfigError(problems);
  const lifted = role !== 'node' && !sectionNames.some((name) => name in tree.value);
  const sections: Record<string, unknown> = lifted
    ? { [role]: tree.value }
    : role === 'aggregator'
      ? withBeside(tree.value)
      : tree.value;
  const reader = new SectionReader(tree, lifted, problems);
  for (const key of Object.keys(sections)) {
    if (!sectionNames.includes(key)) reader.add([key], 'unknown section');
  }
  const db =
    'db' in sections || role === 'node' ? reader.section('db', sections, checkDbSection) : null;
  const coordinator =
    'coordinator' in sections || role === 'coordinator'
      ? reader.section('coordinator', sections, checkCoordinatorSection)
      : null;
  const aggregator =
    'aggregator' in sections || role === 'aggregator'
      ? reader.section('aggregator', sections, checkAggregatorSection)
      : null;
  if (problems.length > 0) throw new ConfigError(problems);
  const listenHost = environment[listenHostVariable] || null;
  const dbConfig = db === null ? null : resolveDb(db, listenHost, environment, reader);
  const config: Config = {
    coordinator:
      coordinator === null
        ? null
        : resolveCoordinator(coordinator, db, dbConfig, listenHost, reader),
    db: dbConfig,
    aggregator: aggregator === null ? null : resolveAggregator(aggregator, listenHost, reader),
    notes: reader.notes,
  };
  if (problems.length > 0) throw new ConfigError(problems);
  if (role === 'node') noteOtherModes(config, reader);
  return config;
}

/** Settings that stand in the file and belong to a process of another kind. */
function noteOtherModes({ db, coordinator }: Config, reader: SectionReader): void {
  if (db!.discovery.type !== 'tsdb_single_node') {
    reader.noteGiven(['db', 'kv'], 'only discovery type tsdb_single_node embeds a key-value store');
  }
  if (coordinator === null) return;
  for (const key of ['level', 'encoding']) {
    reader.noteGiven(['coordinator', 'logging', key], 'the process logs as db.logging says');
  }
  reader.noteGiven(
    ['db', 'metrics', 'prometheus', 'listenAddress'],
    'metrics are served at coordinator.metrics',
  );
}

/**
 * The files of the command line: `-f file`, any number of times.
 * @throws {ConfigError} when there is another argument, or none is given and `required`
 */
export function configPathsOf(args: readonly string[]): string[] {
  const paths: string[] = [];
  for (let index = 0; index < args.length; index += 1) {
    const argument = args[index]!;
    const inline = /^(?:-f|--file)=(.+)$/.exec(argument);
    if (inline !== null) {
      paths.push(inline[1]!);
    } else if ((argument === '-f' || argument === '--file') && index + 1 < args.length) {
      index += 1;
      paths.push(args[index]!);
    } else {
      const what =
        argument === '-f' || argument === '--file'
          ? `${argument} needs a file after it`
          : `unknown argument: ${argument}`;
      throw new ConfigError([`command line: ${what}; usage: -f FILE, --help, --version`]);
    }
  }
  return paths;
}

/**
 * Reads the files of a command line and their configuration.
 * @param readFile such as `env.disk.readFile`
 * @throws {ConfigError} when a file cannot be read, or with all problems in the files
 */
export async function loadConfig(
  paths: readonly string[],
  role: ConfigRole,
  environment: Readonly<Record<string, string | undefined>>,
  readFile: (path: string) => Promise<Uint8Array>,
): Promise<Config> {
  const files: ConfigFile[] = [];
  const problems: string[] = [];
  for (const path of paths) {
    try {
      files.push({
        path,
        text: new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path)),
      });
    } catch (error) {
      problems.push(`${path}: cannot be read: ${messageOf(error)}`);
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return parseConfig(files, role, environment);
}
