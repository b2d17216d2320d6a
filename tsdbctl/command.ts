/** One command of the command line, and what it is called with. */
import { realEnv } from '#lib/env/real.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';

/** Of all commands; each uses those of its usage. */
export interface Options {
  readonly node: string;
  /** Null when it is not given. */
  readonly namespace: string | null;
  readonly match: string;
  readonly rows: boolean;
  readonly limit: string;
  readonly coordinator: string;
  /** Null when it is not given. */
  readonly set: string | null;
  readonly dryRun: boolean;
  readonly force: boolean;
  /** Null when they are not given. */
  readonly from: string | null;
  readonly to: string | null;
  readonly rate: string | null;
  readonly slice: string;
  readonly names: string;
  readonly parallel: string;
  readonly state: string;
  readonly verify: boolean;
  readonly service: string;
  readonly output: string;
  readonly step: string;
  readonly engine: string;
  /** Null when it is not given. */
  readonly queries: string | null;
  readonly count: string;
  readonly label: readonly string[];
  readonly header: readonly string[];
  readonly skipDamaged: boolean;
  readonly skipUntagged: boolean;
  readonly skipUnfinished: boolean;
  readonly skipDeleted: boolean;
  readonly leaveOut: readonly string[];
}

export interface Call {
  readonly options: Options;
  /** What stands behind the names of the command. */
  readonly operands: readonly string[];
  /** Names of the options that were given. */
  readonly given: readonly string[];
  readonly usage: string;
  /** Prints a line. */
  readonly print: (line: string) => void;
}

export interface Command {
  readonly usage: string;
  /** @returns the exit code */
  run(call: Call): Promise<number>;
}

/** Of every command. */
const optionsOfEach: readonly string[] = ['help', 'version'];

/** Names of the options that a command has: those that its usage tells of. */
export function optionsOf(usage: string): ReadonlySet<string> {
  const names = [...usage.matchAll(/--([a-z][a-z-]*)/g)].map(([, name]) => name!);
  if (/[[\s]-o\b/.test(usage)) names.push('output');
  return new Set([...names, ...optionsOfEach]);
}

/**
 * What a command passes over may be what its user counts on, as on --dry-run.
 * @param given names without dashes
 * @throws {TsdbError} BAD_REQUEST with the usage
 */
export function checkOptions(usage: string, given: readonly string[]): void {
  const has = optionsOf(usage);
  const other = given.find((name) => !has.has(name));
  if (other !== undefined) throw badRequest(`it has no option --${other}\n\n${usage}`);
}

/** A command that says something when it is done. */
export function saying(usage: string, say: (call: Call) => Promise<string>): Command {
  return {
    usage,
    async run(call) {
      call.print(await say(call));
      return 0;
    },
  };
}

/** @throws {TsdbError} BAD_REQUEST with the usage */
export function operandOf({ operands, usage }: Call, at: number, name: string): string {
  const operand = operands[at];
  if (operand === undefined) throw badRequest(`${name} is not given\n\n${usage}`);
  return operand;
}

/**
 * What `--header NAME=VALUE` says, any number of times.
 * @throws {TsdbError} BAD_REQUEST
 */
export function headersOf(texts: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    texts.map((text) => {
      const [, name, value] = /^([-!#$%&'*+.^_`|~0-9A-Za-z]+)=(.*)$/.exec(text) ?? [];
      if (name === undefined) throw badRequest(`--header is not NAME=VALUE: ${text}`);
      return [name.toLowerCase(), value!];
    }),
  );
}

/** @throws {TsdbError} NOT_FOUND */
export async function checkIsThere(what: string, path: string): Promise<void> {
  if ((await realEnv.disk.size(path)) !== null) return;
  throw new TsdbError('NOT_FOUND', `there is no such ${what}: ${path}`);
}
