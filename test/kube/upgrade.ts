/**
 * From the images and manifests of an earlier commit to those of this checkout and back, under load:
 * nothing that was acknowledged is lost, and how much of it waited is said.
 * `node test/kube/upgrade.ts --from COMMIT`
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { toolOptions } from '../command_line.ts';
import {
  applyCluster,
  ask,
  clusterName,
  clusterReady,
  installByManifests,
  namespace,
  startLoad,
} from './install.ts';
import {
  bringUp,
  collectLogs,
  type Kube,
  run,
  say,
  seconds,
  versionDefault,
  waitFor,
} from './kube.ts';

const values = toolOptions(
  `node test/kube/upgrade.ts --from COMMIT [options]: an upgrade and the way back, under load
  --from COMMIT      whose images and manifests the cluster is made from
  --version X.Y.Z    of Kubernetes; ${versionDefault} when not given
  --keep             use a Kubernetes that is up, and leave it up`,
  {
    from: { type: 'string', default: '' },
    version: { type: 'string', default: versionDefault },
    keep: { type: 'boolean', default: false },
  },
);
const root = join(import.meta.dirname, '../..');
const tagBefore = 'before';
const tagNow = process.env['TSDB_IMAGE_TAG'] ?? 'test';

async function mustRun(command: string, args: readonly string[], tag?: string): Promise<void> {
  const environment = tag === undefined ? {} : { TSDB_IMAGE_TAG: tag };
  const { code, output } = await run(command, args, { millisMax: 1_200_000, environment });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: ${output.slice(-3000)}`);
}

/** @returns the folder with the sources of the commit, set up */
async function checkoutOf(commit: string): Promise<string> {
  const folder = join(tmpdir(), `tsdb-upgrade-${commit}`);
  if (!existsSync(folder)) {
    await mustRun('git', ['clone', '-q', root, folder]);
    await mustRun('git', ['-C', folder, 'checkout', '-q', commit]);
  }
  await mustRun('node', [join(folder, 'setup.mjs')]);
  return folder;
}

interface Counts {
  readonly requests: number;
  readonly retries: number;
  readonly refused: number;
  readonly checks: number;
  readonly failedChecks: number;
}

async function counts(kube: Kube): Promise<Counts> {
  const { requests, retries, refused } = await ask(kube, 'writer', 'status');
  const { checks, queriesFailed } = await ask(kube, 'checker', 'report');
  return { requests, retries, refused, checks, failedChecks: queriesFailed };
}

const percent = (failed: number, all: number): string =>
  `${((100 * (all - failed)) / all).toFixed(2)} % of ${all}`;

/** Every pod of the cluster has images of this tag, and all is as the resource asks for. */
async function rolledTo(kube: Kube, tag: string): Promise<void> {
  await waitFor(`all pods of ${tag}`, 900_000, async () => {
    const pods = await kube.list('pods', namespace, `tsdb.io/cluster=${clusterName}`);
    const others = pods.filter(({ spec }) =>
      spec.containers.some(({ image }: any) => !image.endsWith(`:${tag}`)),
    );
    const names = others.map(({ metadata }) => metadata.name).join(' ');
    return names === '' ? null : `of another one: ${names}`;
  });
  await clusterReady(kube, 1, 300_000);
}

async function roll(kube: Kube, checkout: string, tag: string): Promise<void> {
  const started = Date.now();
  const before = await counts(kube);
  await installByManifests(kube, checkout, tag);
  await rolledTo(kube, tag);
  const after = await counts(kube);
  const writes = after.requests - before.requests;
  const reads = after.checks + after.failedChecks - before.checks - before.failedChecks;
  say(
    `to ${tag} after ${seconds(started)}: writes ${percent(after.retries - before.retries, writes)}, reads ${percent(after.failedChecks - before.failedChecks, reads)} at the first attempt`,
  );
  assert.equal(after.refused, 0, 'nothing is refused for good');
  await delay(5_000);
  const report = await ask(kube, 'checker', 'report');
  say(`  checker ${JSON.stringify(report)}`);
  say(`  writer ${JSON.stringify(await ask(kube, 'writer', 'status'))}`);
  assert.deepEqual(report.missing, []);
  await waitFor('every sample is there', 60_000, async () => {
    const full = await ask(kube, 'checker', 'full');
    assert.equal(full.samplesMissing, 0, full.missing.join('\n'));
    return full.samples > 0 ? null : 'no samples';
  });
}

if (values.from === '') {
  console.error('--from COMMIT is required');
  process.exit(2);
}
const checkout = await checkoutOf(values.from);
const kube = await bringUp(values.version, values.keep);
try {
  await mustRun('bash', [join(checkout, 'test/kube/images.sh'), values.version], tagBefore);
  await installByManifests(kube, checkout, tagBefore);
  await applyCluster(kube);
  await clusterReady(kube, 1, 300_000);
  await startLoad(kube);
  await delay(20_000);
  await roll(kube, root, tagNow);
  await roll(kube, checkout, tagBefore);
  say('ok');
} catch (error) {
  say(`not ok: ${(error as Error).stack}`);
  await collectLogs(kube, join(tmpdir(), 'tsdb-upgrade'));
  process.exitCode = 1;
} finally {
  if (!values.keep) await kube.down();
}
