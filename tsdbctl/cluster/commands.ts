/** Commands about a cluster: its state, placement, namespaces, and M3's files that change them. */
import type { HealthReport } from '#cluster/admin/instance_health.ts';
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { type Call, type Command, operandOf, saying } from '../command.ts';
import { callCoordinator, sendJson } from '../coordinator.ts';
import { readMapping } from '../file.ts';
import { requestOfFile } from './apply.ts';
import {
  namespacesTable,
  type PlacementAnswer,
  placementTable,
  type RegistryAnswer,
  statusText,
  topologyTable,
} from './views.ts';

const ofCoordinator = `  --coordinator URL  http://127.0.0.1:7201 when not given`;
const ofService = `  --service NAME     tsdb when not given, or aggregator`;
const ofOutput = `  -o, --output json  the coordinator's own answer in the place of a table`;

function pathOf({ options }: Call, rest: string): string {
  const { service } = options;
  if (service === 'tsdb' || service === 'aggregator') return `/api/v1/services/${service}/${rest}`;
  throw badRequest(`--service is neither tsdb nor aggregator: ${shownText(service)}`);
}

async function ask(call: Call, path: string, what: string): Promise<unknown> {
  const { coordinator } = call.options;
  return await callCoordinator(sendJson, { coordinator, method: 'GET', path, what });
}

async function change(
  call: Call,
  method: 'POST' | 'DELETE',
  path: string,
  what: string,
  body?: unknown,
): Promise<unknown> {
  const { coordinator, dryRun, force } = call.options;
  const headers = {
    ...(dryRun ? { 'Dry-Run': 'true' } : {}),
    ...(force ? { Force: 'true' } : {}),
  };
  return await callCoordinator(sendJson, { coordinator, method, path, what, headers, body });
}

/** A table, or the answer as it came. */
function shown<Answer>(call: Call, answer: unknown, table: (answer: Answer) => string): string {
  const { output } = call.options;
  if (output === 'json') return JSON.stringify(answer, null, 2);
  if (output !== 'table')
    throw badRequest(`--output is neither table nor json: ${shownText(output)}`);
  return table(answer as Answer);
}

/** Of no instance while there is no placement. */
async function healthOf(call: Call): Promise<HealthReport> {
  try {
    const health = await ask(call, '/api/v1/services/tsdb/health', 'tell the status');
    return health as HealthReport;
  } catch (error) {
    if (!(error instanceof TsdbError) || error.code !== 'NOT_FOUND') throw error;
    return { instances: {} };
  }
}

const placementShown = (call: Call, answer: unknown): string =>
  shown<PlacementAnswer>(call, answer, placementTable);

export const clusterCommands: Readonly<Record<string, Command>> = {
  status: {
    usage: `tsdbctl status [--coordinator URL] [-o json]
  the cluster at a glance: instances, what they lack, namespaces; the exit code is 1 when something is not well
${ofCoordinator}
${ofOutput}`,
    async run(call) {
      const health = await healthOf(call);
      const registry = await ask(
        call,
        '/api/v1/services/tsdb/namespace?debug=true',
        'tell the status',
      );
      const hasPlacement = Object.keys(health.instances).length > 0;
      const placement = hasPlacement
        ? await ask(call, '/api/v1/services/tsdb/placement', 'tell the status')
        : null;
      const { text, isWell } = statusText(
        placement as PlacementAnswer | null,
        health.instances,
        registry as RegistryAnswer,
      );
      const all = { placement, health: health.instances, ...(registry as RegistryAnswer), isWell };
      call.print(shown(call, all, () => text));
      return isWell ? 0 : 1;
    },
  },
  topology: saying(
    `tsdbctl topology [--service NAME] [--coordinator URL] [-o json]
  which instance has which shards
${ofService}
${ofCoordinator}
${ofOutput}`,
    async (call) =>
      shown<PlacementAnswer>(
        call,
        await ask(call, pathOf(call, 'placement'), 'tell the topology'),
        topologyTable,
      ),
  ),
  'placement get': saying(
    `tsdbctl placement get [--service NAME] [--coordinator URL] [-o json]
  the instances, and how many shards each has
${ofService}
${ofCoordinator}
${ofOutput}`,
    async (call) =>
      placementShown(call, await ask(call, pathOf(call, 'placement'), 'read the placement')),
  ),
  'placement init': saying(
    `tsdbctl placement init FILE [--service NAME] [--dry-run] [--coordinator URL] [-o json]
  makes the first placement; FILE is JSON or YAML: {num_shards, replication_factor, instances}
${ofService}
${ofCoordinator}`,
    (call) => placementOf(call, 'init', 'make the placement'),
  ),
  'placement add': saying(
    `tsdbctl placement add FILE [--service NAME] [--force] [--dry-run] [--coordinator URL] [-o json]
  adds instances; FILE is JSON or YAML: {instances: [{id, isolation_group, zone, weight, endpoint, hostname, port}]}
${ofService}
${ofCoordinator}`,
    (call) => placementOf(call, '', 'add instances'),
  ),
  'placement replace': saying(
    `tsdbctl placement replace FILE [--service NAME] [--force] [--dry-run] [--coordinator URL] [-o json]
  puts instances in the place of others; FILE is JSON or YAML: {leavingInstanceIDs, candidates}
${ofService}
${ofCoordinator}`,
    (call) => placementOf(call, 'replace', 'replace instances'),
  ),
  'placement remove': saying(
    `tsdbctl placement remove INSTANCE… [--service NAME] [--force] [--dry-run] [--coordinator URL] [-o json]
  removes instances, of which others take the shards first
${ofService}
${ofCoordinator}`,
    async (call) => {
      operandOf(call, 0, 'INSTANCE');
      const path = pathOf(call, 'placement/remove');
      const body = { instance_ids: call.operands };
      return placementShown(call, await change(call, 'POST', path, 'remove instances', body));
    },
  ),
  'placement delete': saying(
    `tsdbctl placement delete --force [--service NAME] [--dry-run] [--coordinator URL]
  deletes the placement: nothing is written or read after it
${ofService}
${ofCoordinator}`,
    async (call) => {
      const { force, dryRun } = call.options;
      if (!force && !dryRun) throw badRequest('nothing is written or read without it: say --force');
      await change(call, 'DELETE', pathOf(call, 'placement'), 'delete the placement');
      return dryRun ? 'it would be deleted' : 'it is deleted';
    },
  ),
  'namespace list': saying(
    `tsdbctl namespace list [--coordinator URL] [-o json]
  the namespaces, and what they hold for how long
${ofCoordinator}
${ofOutput}`,
    async (call) =>
      shown<RegistryAnswer>(
        call,
        await ask(call, '/api/v1/services/tsdb/namespace?debug=true', 'list namespaces'),
        namespacesTable,
      ),
  ),
  'namespace add': saying(
    `tsdbctl namespace add FILE [--dry-run] [--coordinator URL]
  adds one; FILE is JSON or YAML: {name, options}
${ofCoordinator}`,
    async (call) => {
      const body = await bodyOf(call);
      await change(call, 'POST', '/api/v1/services/tsdb/namespace', 'add the namespace', body);
      if (call.options.dryRun) return 'it would be added';
      return 'it is added; "tsdbctl namespace ready NAME" has it written and read';
    },
  ),
  'namespace ready': saying(
    `tsdbctl namespace ready NAME [--force] [--coordinator URL]
  has it written and read, when the nodes have it
${ofCoordinator}
  --force            without asking the nodes`,
    async (call) => {
      const name = operandOf(call, 0, 'NAME');
      const path = '/api/v1/services/tsdb/namespace/ready';
      await change(call, 'POST', path, `make ${name} ready`, { name, force: call.options.force });
      return `${name} is READY`;
    },
  ),
  'namespace delete': saying(
    `tsdbctl namespace delete NAME --force [--coordinator URL]
  deletes it with its rows
${ofCoordinator}`,
    async (call) => {
      const name = operandOf(call, 0, 'NAME');
      if (!call.options.force) throw badRequest(`all rows of ${name} go with it: say --force`);
      const path = `/api/v1/services/tsdb/namespace/${encodeURIComponent(name)}`;
      await change(call, 'DELETE', path, `delete ${name}`);
      return `${name} is deleted`;
    },
  ),
  apply: saying(
    `tsdbctl apply FILE [--dry-run] [--force] [--coordinator URL]
  carries out a file of m3ctl: {operation: create, init, newNode or replaceNode, service, request}; - is the standard input
${ofCoordinator}`,
    async (call) => {
      const { method, path, body, what } = requestOfFile(
        await readMapping(operandOf(call, 0, 'FILE')),
      );
      return JSON.stringify(await change(call, method, path, what, body), null, 2);
    },
  ),
};

async function bodyOf(call: Call): Promise<unknown> {
  return await readMapping(operandOf(call, 0, 'FILE'));
}

async function placementOf(call: Call, rest: string, what: string): Promise<string> {
  const path = pathOf(call, rest === '' ? 'placement' : `placement/${rest}`);
  return placementShown(call, await change(call, 'POST', path, what, await bodyOf(call)));
}
