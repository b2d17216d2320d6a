/**
 * The command line.
 *
 *     tsdbctl data flush [--node URL] [--namespace NAME]   writes a node's memory to filesets; its log is gone then
 *     tsdbctl data verify FOLDER                           compares every checksum of a data folder, and tells what each byte is for
 *     tsdbctl data read FOLDER [--namespace NAME] [--match TEXT] [--rows] [--limit N]      its series, with their rows if wanted
 */
import { parseArgs } from 'node:util';
import { realEnv } from '#lib/env/real.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { flushNode } from './data/data.ts';
import { readFolder } from './data/read.ts';
import { verifyFolder } from './data/verify.ts';

const usage = `tsdbctl data flush [--node http://127.0.0.1:9002] [--namespace NAME]
tsdbctl data verify FOLDER
tsdbctl data read FOLDER [--namespace NAME] [--match TEXT] [--rows] [--limit N]`;

async function post(url: string): Promise<{ status: number; text: string }> {
  const response = await fetch(url, { method: 'POST' });
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
    },
  });
  const [subject, verb, folder] = positionals;
  const print = (line: string): void => console.log(line);
  const namespace = values.namespace ?? null;
  if (subject !== 'data') throw new TsdbError('BAD_REQUEST', usage);
  if (verb === 'flush') {
    print(await flushNode(post, values.node, namespace));
    return 0;
  }
  if (folder === undefined) throw new TsdbError('BAD_REQUEST', usage);
  if ((await realEnv.disk.size(folder)) === null) {
    throw new TsdbError('NOT_FOUND', `there is no such folder: ${folder}`);
  }
  if (verb === 'verify') return (await verifyFolder(realEnv, folder, print)) === 0 ? 0 : 1;
  if (verb === 'read') {
    const limit = Number(values.limit);
    if (!Number.isSafeInteger(limit) || limit < 1) {
      throw new TsdbError('BAD_REQUEST', `--limit is not a whole number from 1: ${values.limit}`);
    }
    const options = { namespace, match: values.match, rows: values.rows, limit };
    await readFolder(realEnv, folder, options, print);
    return 0;
  }
  throw new TsdbError('BAD_REQUEST', usage);
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 2;
}
