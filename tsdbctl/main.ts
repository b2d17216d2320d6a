/** The command line; `commands` is what it can do. */
import { parseArgs } from 'node:util';
import { badRequest, messageOf } from '#lib/errors.ts';
import { terminalText } from '#lib/log_text.ts';
import { version } from '#lib/version.ts';
import { aggregationRulesCommands } from './aggregation_rules/commands.ts';
import { clusterCommands } from './cluster/commands.ts';
import { checkOptions, type Command, operandOf, saying } from './command.ts';
import { compareCommands } from './compare/commands.ts';
import { completionScript } from './completion.ts';
import { dataCommands } from './data/commands.ts';
import { importCommands } from './import/commands.ts';
import { placementCommands } from './placement/commands.ts';
import { queryCommands } from './query/commands.ts';
import { upgradeCommands } from './upgrade/commands.ts';

const commands: Readonly<Record<string, Command>> = {
  ...clusterCommands,
  ...queryCommands,
  ...compareCommands,
  ...dataCommands,
  ...importCommands,
  ...placementCommands,
  ...upgradeCommands,
  ...aggregationRulesCommands,
  completion: saying(
    `tsdbctl completion bash|zsh|fish
  prints a script for the shell: source <(tsdbctl completion bash)`,
    async (call) =>
      completionScript(
        operandOf(call, 0, 'shell'),
        Object.entries(commands).map(([name, { usage }]) => [name, usage]),
      ),
  ),
};
/** How each of some commands is called. */
function callsOf(group: string): string {
  const usages = Object.entries(commands)
    .filter(([name]) => group === '' || name.startsWith(`${group} `))
    .flatMap(([, { usage }]) => usage.split('\n').filter((line) => line.startsWith('tsdbctl ')));
  return usages.length === 0 ? callsOf('') : usages.join('\n');
}

const more = 'tsdbctl COMMAND --help tells more of one; --version the version';

// `tsdbctl … | head` closes the pipe when it has what it wants.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

const optionsOfAll = {
  node: { type: 'string', default: 'http://127.0.0.1:9002' },
  namespace: { type: 'string' },
  match: { type: 'string', default: '' },
  rows: { type: 'boolean', default: false },
  limit: { type: 'string', default: '1000' },
  coordinator: { type: 'string', default: 'http://127.0.0.1:7201' },
  set: { type: 'string' },
  'dry-run': { type: 'boolean', default: false },
  force: { type: 'boolean', default: false },
  from: { type: 'string' },
  to: { type: 'string' },
  rate: { type: 'string' },
  slice: { type: 'string', default: '30m' },
  names: { type: 'string', default: '.+' },
  parallel: { type: 'string', default: '2' },
  state: { type: 'string', default: 'tsdb-import.json' },
  verify: { type: 'boolean', default: false },
  service: { type: 'string', default: 'tsdb' },
  output: { type: 'string', short: 'o', default: 'table' },
  step: { type: 'string', default: '1m' },
  engine: { type: 'string', default: 'prometheus' },
  queries: { type: 'string' },
  count: { type: 'string', default: '100' },
  label: { type: 'string', multiple: true, default: [] as string[] },
  header: { type: 'string', multiple: true, default: [] as string[] },
  'skip-damaged': { type: 'boolean', default: false },
  'skip-untagged': { type: 'boolean', default: false },
  'skip-unfinished': { type: 'boolean', default: false },
  'skip-deleted': { type: 'boolean', default: false },
  'leave-out': { type: 'string', multiple: true, default: [] as string[] },
  help: { type: 'boolean', short: 'h', default: false },
  version: { type: 'boolean', default: false },
} as const;

/** @returns the exit code */
async function main(): Promise<number> {
  const { values, positionals, tokens } = parseArgs({
    allowPositionals: true,
    options: optionsOfAll,
    tokens: true,
  });
  const print = (line: string): void => console.log(terminalText(line));
  const [first = '', second = ''] = positionals;
  // Of two words, or one.
  const named = [`${first} ${second}`, first].find((name) => Object.hasOwn(commands, name));
  const command = named === undefined ? undefined : commands[named];
  if (values.help || values.version) {
    const help = command?.usage ?? `${callsOf(first)}\n\n${more}`;
    print(values.help ? help : `tsdbctl ${version}`);
    return 0;
  }
  if (command === undefined) {
    const said = positionals.slice(0, 2).join(' ');
    const what = said === '' ? 'no command is given' : `unknown command: ${said}`;
    throw badRequest(`${what}\n\n${callsOf(first)}\n\n${more}`);
  }
  const given = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []));
  checkOptions(command.usage, given);
  const { namespace = null, set = null, from = null, to = null, rate = null } = values;
  const { queries = null } = values;
  const hyphened = {
    dryRun: values['dry-run'],
    skipDamaged: values['skip-damaged'],
    skipUntagged: values['skip-untagged'],
    skipUnfinished: values['skip-unfinished'],
    skipDeleted: values['skip-deleted'],
    leaveOut: values['leave-out'],
  };
  return command.run({
    options: { ...values, namespace, set, from, to, rate, queries, ...hyphened },
    operands: positionals.slice(named!.split(' ').length),
    given,
    usage: command.usage,
    print,
  });
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(terminalText(messageOf(error)));
  process.exitCode = 2;
}
