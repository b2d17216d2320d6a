/** The command line; `commands` is what it can do. */
import { parseArgs } from 'node:util';
import { badRequest, messageOf } from '#lib/errors.ts';
import { terminalText } from '#lib/log_text.ts';
import { version } from '#lib/version.ts';
import { aggregationRulesCommands } from './aggregation_rules/commands.ts';
import type { Command } from './command.ts';
import { dataCommands } from './data/commands.ts';
import { importCommands } from './import/commands.ts';
import { placementCommands } from './placement/commands.ts';
import { upgradeCommands } from './upgrade/commands.ts';

const commands: Readonly<Record<string, Command>> = {
  ...dataCommands,
  ...importCommands,
  ...placementCommands,
  ...upgradeCommands,
  ...aggregationRulesCommands,
};
const usages = Object.values(commands).map(({ usage }) => usage);
const usage = `${usages.join('\n\n')}

-h, --help prints this, of one command when one is named; --version the version`;

// `tsdbctl … | head` closes the pipe when it has what it wants.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

/** @returns the exit code */
async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
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
      help: { type: 'boolean', short: 'h', default: false },
      version: { type: 'boolean', default: false },
    },
  });
  const print = (line: string): void => console.log(terminalText(line));
  const named = positionals.slice(0, 2).join(' ');
  const command = Object.hasOwn(commands, named) ? commands[named] : undefined;
  if (values.help || values.version) {
    print(values.help ? (command?.usage ?? usage) : `tsdbctl ${version}`);
    return 0;
  }
  if (command === undefined) {
    const what = named === '' ? 'no command is given' : `unknown command: ${named}`;
    throw badRequest(`${what}\n\n${usage}`);
  }
  const { namespace = null, set = null, from = null, to = null, rate = null } = values;
  const dryRun = values['dry-run'];
  return command.run({
    options: { ...values, namespace, set, from, to, rate, dryRun },
    operands: positionals.slice(2),
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
