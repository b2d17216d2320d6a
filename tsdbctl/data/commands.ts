/** Commands about the data of a node. */
import { realEnv } from '#lib/env/real.ts';
import { badRequest } from '#lib/errors.ts';
import { checkIsThere, type Call, type Command, operandOf, saying } from '../command.ts';
import { flushNode, repairNode } from './data.ts';
import { readFolder } from './read.ts';
import { verifyFolder } from './verify.ts';

async function answerOf(
  method: 'GET' | 'POST',
  url: string,
): Promise<{ status: number; text: string }> {
  const response = await fetch(url, { method, redirect: method === 'GET' ? 'follow' : 'manual' });
  return { status: response.status, text: await response.text() };
}

async function folderOf(call: Call): Promise<string> {
  const folder = operandOf(call, 0, 'FOLDER');
  await checkIsThere('folder', folder);
  return folder;
}

export const dataCommands: Readonly<Record<string, Command>> = {
  'data flush': saying(
    `tsdbctl data flush [--node URL] [--namespace NAME]
  writes the memory of the node at URL to filesets; its log is gone then
  --node URL         http://127.0.0.1:9002 when not given
  --namespace NAME   this one alone`,
    ({ options }) => flushNode((url) => answerOf('POST', url), options.node, options.namespace),
  ),
  'data repair': saying(
    `tsdbctl data repair [--node URL]
  has the node at URL compare its blocks with those of the other replicas now, and take what it lacks
  --node URL  http://127.0.0.1:9002 when not given`,
    async ({ options }) => {
      await repairNode((url) => answerOf('GET', url), options.node);
      return 'the comparison is begun; tsdb_node_repair_blocks_differing tells how it ends';
    },
  ),
  'data verify': {
    usage: `tsdbctl data verify FOLDER
  compares every checksum of a data folder, and tells what each byte is for; stop the node first`,
    async run(call) {
      return (await verifyFolder(realEnv, await folderOf(call), call.print)) === 0 ? 0 : 1;
    },
  },
  'data read': {
    usage: `tsdbctl data read FOLDER [--namespace NAME] [--match TEXT] [--rows] [--limit N]
  prints where the series of a data folder are
  --namespace NAME   this one alone
  --match TEXT       series whose ID contains TEXT
  --rows             with their rows
  --limit N          N lines of series at most; 1000 when not given`,
    async run(call) {
      const folder = await folderOf(call);
      const { namespace, match, rows } = call.options;
      const limit = Number(call.options.limit);
      if (!Number.isSafeInteger(limit) || limit < 1) {
        throw badRequest(`--limit is not a whole number from 1: ${call.options.limit}`);
      }
      await readFolder(realEnv, folder, { namespace, match, rows, limit }, call.print);
      return 0;
    },
  },
};
