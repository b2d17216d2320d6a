/** The command line; `usages` is what it can do. */
import { parseArgs } from 'node:util';
import { realEnv } from '#lib/env/real.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { terminalText } from '#lib/log_text.ts';
import { version } from '#lib/version.ts';
import { explainSeries, rulesText, tagsOfPairs } from './aggregation_rules/explain.ts';
import { readRules } from './aggregation_rules/read.ts';
import { flushNode, repairNode } from './data/data.ts';
import { readFolder } from './data/read.ts';
import { verifyFolder } from './data/verify.ts';
import { approvePlacement } from './placement/approve.ts';
import { resetInstances } from './placement/reset.ts';
import { finishUpgrade, upgradeStatusText } from './upgrade/upgrade.ts';

const usages: Readonly<Record<string, string>> = {
  'data flush': `tsdbctl data flush [--node URL] [--namespace NAME]
  writes the memory of the node at URL to filesets; its log is gone then
  --node URL         http://127.0.0.1:9002 when not given
  --namespace NAME   this one alone`,
  'data repair': `tsdbctl data repair [--node URL]
  has the node at URL compare its blocks with those of the other replicas now, and take what it lacks
  --node URL  http://127.0.0.1:9002 when not given`,
  'data verify': `tsdbctl data verify FOLDER
  compares every checksum of a data folder, and tells what each byte is for; stop the node first`,
  'data read': `tsdbctl data read FOLDER [--namespace NAME] [--match TEXT] [--rows] [--limit N]
  prints where the series of a data folder are
  --namespace NAME   this one alone
  --match TEXT       series whose ID contains TEXT
  --rows             with their rows
  --limit N          N lines of series at most; 1000 when not given`,
  'placement approve': `tsdbctl placement approve [--coordinator URL] [--force]
  after the key-value store was restored from a backup or made anew: has the placement and the namespaces stand again
  that the instances knew last; says no as long as an instance has not said what it knew
  --coordinator URL  http://127.0.0.1:7201 when not given
  --force            all the same`,
  'placement reset': `tsdbctl placement reset INSTANCE… [--coordinator URL] [--force]
  has the data of instances not counted any more, since they are gone for good or not trusted: nobody waits for them,
  and those that come back take their shards from others; says no when one of them runs, or nobody else has a shard
  --coordinator URL  http://127.0.0.1:7201 when not given
  --force            all the same`,
  'upgrade status': `tsdbctl upgrade status [--coordinator URL]
  tells which formats the cluster writes, and who is in the way of those of this release
  --coordinator URL  http://127.0.0.1:7201 when not given`,
  'upgrade finish': `tsdbctl upgrade finish [--coordinator URL] [--force]
  has the formats of this release written, when every process reads them: the release before must not be started
  after that
  --coordinator URL  http://127.0.0.1:7201 when not given
  --force            also while clients read by gRPC that do not say what they can read`,
  'aggregation-rules check': `tsdbctl aggregation-rules check FILE
  says whether the mapping and rollup rules of a file can be used; FILE has them alone, or is the configuration of a
  coordinator`,
  'aggregation-rules explain': `tsdbctl aggregation-rules explain FILE METRIC TAG=VALUE…
  tells what the rules of a file do with a series`,
};
const usage = `${Object.values(usages).join('\n\n')}

-h, --help prints this, of one command when one is named; --version the version`;

async function send(
  method: 'GET' | 'POST',
  url: string,
  body?: unknown,
): Promise<{ status: number; text: string }> {
  const headers = { 'content-type': 'application/json' };
  const json = body === undefined ? {} : { headers, body: JSON.stringify(body) };
  const response = await fetch(url, { method, ...json });
  return { status: response.status, text: await response.text() };
}

async function getText(url: string): Promise<{ status: number; text: string }> {
  const response = await fetch(url);
  return { status: response.status, text: await response.text() };
}

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
      force: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      version: { type: 'boolean', default: false },
    },
  });
  const [subject, verb, folder] = positionals;
  const print = (line: string): void => console.log(terminalText(line));
  const namespace = values.namespace ?? null;
  const commandUsage = usages[`${subject} ${verb}`];
  if (values.help || values.version) {
    print(values.help ? (commandUsage ?? usage) : `tsdbctl ${version}`);
    return 0;
  }
  if (commandUsage === undefined) {
    const named = positionals.slice(0, 2).join(' ');
    const what = named === '' ? 'no command is given' : `unknown command: ${named}`;
    throw new TsdbError('BAD_REQUEST', `${what}\n\n${usage}`);
  }
  if (verb === 'flush') {
    print(await flushNode((url) => send('POST', url), values.node, namespace));
    return 0;
  }
  if (verb === 'repair') {
    await repairNode(getText, values.node);
    print('the comparison is begun; tsdb_node_repair_blocks_differing tells how it ends');
    return 0;
  }
  if (verb === 'approve') {
    const { coordinator, force } = values;
    print(await approvePlacement(send, { coordinator, force }));
    return 0;
  }
  if (verb === 'reset') {
    const instanceIds = positionals.slice(2);
    if (instanceIds.length === 0) {
      throw new TsdbError('BAD_REQUEST', `INSTANCE is not given\n\n${commandUsage}`);
    }
    const { coordinator, force } = values;
    print(await resetInstances(send, { coordinator, instanceIds, force }));
    return 0;
  }
  if (subject === 'upgrade') {
    const { coordinator, force } = values;
    const isStatus = verb === 'status';
    print(
      await (isStatus
        ? upgradeStatusText(send, coordinator)
        : finishUpgrade(send, { coordinator, force })),
    );
    return 0;
  }
  if (subject === 'aggregation-rules') {
    const [path, ...series] = positionals.slice(2);
    if (path === undefined)
      throw new TsdbError('BAD_REQUEST', `FILE is not given\n\n${commandUsage}`);
    if ((await realEnv.disk.size(path)) === null) {
      throw new TsdbError('NOT_FOUND', `there is no such file: ${path}`);
    }
    const text = new TextDecoder().decode(await realEnv.disk.readFile(path));
    const rules = readRules({ path, text }, process.env);
    print(verb === 'check' ? rulesText(rules) : explainSeries(rules, tagsOfPairs(series)));
    return 0;
  }
  if (folder === undefined) {
    throw new TsdbError('BAD_REQUEST', `FOLDER is not given\n\n${commandUsage}`);
  }
  if ((await realEnv.disk.size(folder)) === null) {
    throw new TsdbError('NOT_FOUND', `there is no such folder: ${folder}`);
  }
  if (verb === 'verify') return (await verifyFolder(realEnv, folder, print)) === 0 ? 0 : 1;
  const limit = Number(values.limit);
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new TsdbError('BAD_REQUEST', `--limit is not a whole number from 1: ${values.limit}`);
  }
  const options = { namespace, match: values.match, rows: values.rows, limit };
  await readFolder(realEnv, folder, options, print);
  return 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(terminalText(messageOf(error)));
  process.exitCode = 2;
}
