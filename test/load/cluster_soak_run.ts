/**
 * A cluster of processes under faults: five storage nodes in three isolation groups, coordinators
 * and etcd, written to and read from while nodes are replaced, killed, wiped, damaged and paused.
 *
 *     node test/load/cluster_soak_run.ts [--minutes 30] [--samples 300000] [--series 30000] [--seed 1]
 *         [--groups a,a,b,b,c] [--coordinators 2] [--faults 'replace,kill two'] [--release FOLDER]
 *         [--block 300] [--memory 1GiB] [--reads 5] [--pause 10] [--etcd-away 120] [--folder FOLDER] [--keep]
 *
 * SIGTERM ends it early, with everything read. Exits with 1 when anything that was acknowledged is
 * missing, an answer is wrong, a request is refused for good, or the cluster does not become whole.
 */
import { rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { toolOrSkip } from '../tools.ts';
import { soakCluster } from './cluster_soak.ts';
import { unmountBelow } from './cluster_soak_disks.ts';
import { faults, usualFaults } from './cluster_soak_faults.ts';
import { SoakCluster } from './cluster_soak_processes.ts';
import { reportOf } from './cluster_soak_report.ts';
import { freshFolder } from './folder.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    samples: { type: 'string', default: '300000' },
    series: { type: 'string', default: '30000' },
    seed: { type: 'string', default: '1' },
    groups: { type: 'string', default: 'a,a,b,b,c' },
    coordinators: { type: 'string', default: '2' },
    shards: { type: 'string', default: '64' },
    faults: { type: 'string', default: usualFaults.join(',') },
    block: { type: 'string', default: '300' },
    memory: { type: 'string', default: '1GiB' },
    release: { type: 'string' },
    reads: { type: 'string', default: '5' },
    pause: { type: 'string', default: '10' },
    'etcd-away': { type: 'string', default: '120' },
    folder: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});

/** Everything stays readable to the end, with the time that faults and the last reads take. */
const retentionSpareSeconds = 7200;

async function main(): Promise<number> {
  const etcdBinary = toolOrSkip('etcd', 'there is no cluster to soak');
  if (etcdBinary === null) return 2;
  const named = values.faults.split(',').filter((name) => name !== '');
  const unknown = named.filter((name) => faults[name] === undefined);
  if (unknown.length > 0) {
    console.log(
      `no such faults: ${unknown.join(', ')}; there are ${Object.keys(faults).join(', ')}`,
    );
    return 2;
  }
  const seconds = Number(values.minutes) * 60;
  const blockSeconds = Number(values.block);
  const folder = freshFolder('cluster-soak', values.folder);
  const report = (line: string): void => console.log(line);
  const cluster = await SoakCluster.create(
    {
      folder: join(folder, 'cluster'),
      etcdBinary,
      groups: values.groups.split(','),
      coordinators: Number(values.coordinators),
      shards: Number(values.shards),
      blockSeconds,
      retentionSeconds: Math.ceil((seconds + retentionSpareSeconds) / blockSeconds) * blockSeconds,
      memoryMax: values.memory,
      release: values.release === undefined ? null : resolve(values.release),
    },
    report,
  );
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => interrupted.abort());
  }
  let isGood = false;
  try {
    console.log(`seed ${values.seed}, folder ${folder}`);
    await cluster.start();
    const outcome = await soakCluster(
      cluster,
      {
        seconds,
        samplesPerSecond: Number(values.samples),
        seriesCount: Number(values.series),
        readsPerSecond: Number(values.reads),
        seed: Number(values.seed),
        faults: named,
        pauseMillis: Number(values.pause) * 1000,
        times: {
          downMillis: 5000,
          pausedMillis: 30_000,
          etcdAwayMillis: Number(values['etcd-away']) * 1000,
          fullDiskMillis: 20_000,
          wrongClockMillis: 60_000,
          wholeTimeoutMillis: 600_000,
          blockMillis: blockSeconds * 1000,
        },
      },
      report,
      interrupted.signal,
    );
    const told = reportOf(outcome);
    for (const line of told.lines) console.log(line);
    ({ isGood } = told);
  } finally {
    await cluster.stop();
    unmountBelow(folder);
    // Logs and data tell why.
    if (isGood && !values.keep) rmSync(folder, { recursive: true, force: true });
    else console.log(`kept: ${folder}`);
  }
  return isGood ? 0 : 1;
}

process.exitCode = await main();
