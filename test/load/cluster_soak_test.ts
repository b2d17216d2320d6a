import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SeededRandom } from '../seeded_random.ts';
import { toolOrSkip } from '../tools.ts';
import { soakCluster } from './cluster_soak.ts';
import { ClusterChecker } from './cluster_soak_checker.ts';
import { clusterData, type Grid, metricName, timeOf } from './cluster_soak_data.ts';
import { blockStartOf, flipBit } from './cluster_soak_disks.ts';
import { Ledger } from './cluster_soak_ledger.ts';
import { SoakCluster } from './cluster_soak_processes.ts';
import { type ClusterSoakOutcome, reportOf } from './cluster_soak_report.ts';
import { ClusterWriter } from './cluster_soak_writer.ts';

const grid: Grid = { seriesCount: 3, startUnixMillis: 1_795_000_000_000, stepMillis: 100 };
const folder = mkdtempSync(join(tmpdir(), 'tsdb-cluster-soak-'));
after(() => rmSync(folder, { recursive: true, force: true }));

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What a store has of the last series: values by step. */
type Values = Map<number, number>;

/**
 * A checker that has read everything from a store in which steps of the last series are changed; of
 * so many steps the last one was not acknowledged.
 */
async function checked(
  steps: number,
  change: (values: Values) => void,
): Promise<{ checker: ClusterChecker; reports: string[] }> {
  const stored = Array.from(
    { length: grid.seriesCount },
    (_, series): Values =>
      new Map(
        Array.from({ length: steps }, (__, step) => [step, clusterData.valueOf(series, step)]),
      ),
  );
  change(stored.at(-1)!);
  const url = await listening(
    createServer((request, response) => {
      const asked = new URL(request.url!, 'http://127.0.0.1');
      const windowMillis = Number(/\[(\d+)ms\]/.exec(asked.searchParams.get('query')!)![1]);
      const stepOf = (name: string): number =>
        (Number(asked.searchParams.get(name)) * 1000 - grid.startUnixMillis) / grid.stepMillis;
      const window = windowMillis / grid.stepMillis;
      const inWindow = (values: Values, end: number): [number, number][] =>
        [...values]
          .filter(([step]) => step > end - window && step <= end)
          .sort(([a], [b]) => a - b);
      const result = stored.map((values, series) => {
        const answered: [number, string][] = [];
        if (asked.pathname === '/api/v1/query_range') {
          for (let end = stepOf('start'); end <= stepOf('end'); end += window) {
            const sum = inWindow(values, end).reduce((before, [, value]) => before + value, 0);
            answered.push([timeOf(grid, end) / 1000, String(sum)]);
          }
        } else {
          for (const [step, value] of inWindow(values, stepOf('time'))) {
            answered.push([timeOf(grid, step) / 1000, String(value)]);
          }
        }
        return { metric: { __name__: metricName, series: String(series) }, values: answered };
      });
      response.end(JSON.stringify({ data: { result } }));
    }),
  );
  const ledger = new Ledger(1, steps);
  for (let step = 0; step < steps; step += 1) {
    ledger.noteSent(0, step);
    if (step < steps - 1) ledger.noteAcknowledged(0, step);
  }
  const reports: string[] = [];
  const checker = new ClusterChecker({
    grid,
    ledger,
    urls: [url],
    circumstances: () => 'kill two; n1(a) stopped',
    random: new SeededRandom(1),
    report: (line) => void reports.push(line),
    againMillis: 10,
  });
  await checker.readAll();
  return { checker, reports };
}

test('the checker holds acknowledged samples against answers', async () => {
  // Samples alone, and sums of windows before them.
  for (const steps of [4, 350]) {
    const acknowledged = steps - 1;
    const whole = await checked(steps, () => {});
    assert.deepEqual(whole.checker.failures, []);
    assert.equal(whole.checker.counts.samplesHeld, grid.seriesCount * acknowledged);

    const unknown = await checked(steps, (values) => values.delete(acknowledged));
    assert.deepEqual(unknown.checker.failures, [], 'what was not acknowledged may be missing');

    const missing = await checked(steps, (values) => values.delete(1));
    assert.equal(missing.checker.counts.missing, 1);
    assert.match(
      missing.checker.failures[0]!,
      /series 2 step 1 \(request of slice 0\) at 2026-11-18T11:06:40\.100Z: is missing.*kill two; n1\(a\) stopped/,
    );
    assert.match(missing.reports.at(-1)!, /0.01 s later 1 missing/);

    const wrong = await checked(steps, (values) => values.set(2, clusterData.valueOf(2, 1)));
    assert.deepEqual([wrong.checker.counts.missing, wrong.checker.counts.wrong], [0, 1]);

    const between = await checked(steps, (values) => values.set(1.5, 1));
    assert.equal(between.checker.counts.wrong, 1, 'nobody sent that');
  }
});

test('the writer sends again what passes, to the next coordinator, and counts first attempts', async () => {
  const answers = [503, 200, 400, 429];
  let asked = 0;
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      response.statusCode = answers[asked] ?? 200;
      asked += 1;
      response.end(`answer ${asked}`);
    });
  });
  const url = await listening(server);
  const stepsMax = 4;
  const ledger = new Ledger(1, stepsMax);
  const reports: string[] = [];
  const writer = new ClusterWriter(
    { ...grid, startUnixMillis: Date.now() },
    ledger,
    ['http://127.0.0.1:1', url],
    (line) => void reports.push(line),
  );
  const never = new AbortController().signal;
  await writer.run(never, never);
  assert.deepEqual([...ledger.statesOf(0, 0, stepsMax)], [2, 1, 2, 2]);
  assert.equal(ledger.samplesSent(grid.seriesCount), stepsMax * grid.seriesCount);
  const { behindMaxMillis, ...counts } = writer.counts;
  assert.deepEqual(counts, {
    requests: stepsMax,
    requestsAcknowledged: 3,
    // The first coordinator is no process: the first request fails there, and after each 5xx again.
    firstAttempts: stepsMax,
    firstAttemptsAcknowledged: 1,
    attemptsFailed: 5,
    requestsRefused: 1,
    samplesAcknowledged: 3 * grid.seriesCount,
  });
  assert.ok(behindMaxMillis > 0);
  assert.ok(reports.some((line) => line.includes('refused for good: 400')));
});

test('the report tells the longest pause by its fault, and fails by what is missing', () => {
  const outcome: ClusterSoakOutcome = {
    seconds: 60,
    writes: {
      requests: 200,
      requestsAcknowledged: 200,
      firstAttempts: 200,
      firstAttemptsAcknowledged: 199,
      attemptsFailed: 1,
      requestsRefused: 0,
      samplesAcknowledged: 400_000,
      behindMaxMillis: 4500,
    },
    samplesSent: 400_000,
    pauses: [{ fromUnixMillis: 12_000, toUnixMillis: 16_500 }],
    reads: { reads: 10, readsRefused: 1, samplesHeld: 1000, missing: 0, wrong: 0 },
    failures: [],
    surprises: [],
    faults: [
      {
        name: 'kill two',
        what: 'n1, n2',
        isSkipped: false,
        fromUnixMillis: 10_000,
        toUnixMillis: 20_000,
        untilWholeMillis: 3000,
        firstAttempts: 100,
        firstAttemptsAcknowledged: 99,
      },
    ],
    usage: new Map([['n1', { cpuSeconds: 3, rssMaxBytes: 2 ** 28 }]]),
    diskBytes: new Map([['n1', 2 ** 22]]),
  };
  const { lines, isGood } = reportOf(outcome);
  assert.ok(isGood);
  const text = lines.join('\n');
  assert.match(text, /99\.500 % of requests acknowledged at their first attempt/);
  assert.match(text, /longest time without an acknowledged request: 4\.5 s, during kill two/);
  assert.match(
    text,
    /kill two \(n1, n2\): whole 3\.0 s after it, 99\.000 % .* longest pause 4\.5 s/,
  );
  assert.match(text, /n1: 3\.0 CPU seconds, 256 MiB at most, 4 MiB on disk/);
  assert.equal(reportOf({ ...outcome, reads: { ...outcome.reads, missing: 1 } }).isGood, false);
  assert.equal(reportOf({ ...outcome, reads: { ...outcome.reads, wrong: 1 } }).isGood, false);
  const refused = { ...outcome.writes, requestsRefused: 1 };
  assert.equal(reportOf({ ...outcome, writes: refused }).isGood, false);
  assert.equal(reportOf({ ...outcome, failures: ['not whole'] }).isGood, false);
});

test('a bit of a file flips, and a block start is read from a name', () => {
  const path = join(folder, 'fileset-1795000000000000000-0-data.db');
  writeFileSync(path, Buffer.alloc(100));
  flipBit(path, 0.5, 3);
  const bytes = readFileSync(path);
  assert.equal(bytes[50], 8);
  assert.equal(bytes.length, 100);
  assert.equal(blockStartOf(path), 1_795_000_000_000);
});

test('the clock of a process moves by what the file says', () => {
  const file = join(folder, 'clock');
  writeFileSync(file, '3600000');
  const { stdout } = spawnSync(process.execPath, ['-p', 'Date.now()'], {
    encoding: 'utf8',
    env: {
      ...process.env,
      NODE_OPTIONS: `--import=${fileURLToPath(new URL('./moved_clock.mjs', import.meta.url))}`,
      TSDB_TEST_CLOCK_FILE: file,
    },
  });
  const aheadMinutes = (Number(stdout) - Date.now()) / 60_000;
  assert.ok(aheadMinutes > 50 && aheadMinutes <= 60, `${aheadMinutes}`);
});

const etcdBinary = toolOrSkip('etcd', 'this soak of a cluster does not run');

// Processes of a cluster start, one of them twice, and all is read four times.
test('a short soak: a node is killed in two groups, one is replaced, and nothing is missing', {
  timeout: 240_000,
  skip: etcdBinary === null,
}, async () => {
  const clusterFolder = join(folder, 'cluster');
  mkdirSync(clusterFolder);
  const reports: string[] = [];
  const report = (line: string): void => void reports.push(line);
  const blockSeconds = 120;
  const cluster = await SoakCluster.create(
    {
      folder: clusterFolder,
      etcdBinary: etcdBinary!,
      groups: ['a', 'b', 'c'],
      coordinators: 1,
      shards: 16,
      blockSeconds,
      retentionSeconds: 60 * blockSeconds,
      memoryMax: '256MiB',
      release: null,
    },
    report,
  );
  try {
    await cluster.start();
    const outcome = await soakCluster(
      cluster,
      {
        seconds: 6,
        samplesPerSecond: 10_000,
        seriesCount: 2000,
        readsPerSecond: 10,
        seed: 1,
        faults: ['kill two', 'replace'],
        pauseMillis: 1000,
        times: {
          downMillis: 500,
          pausedMillis: 1000,
          etcdAwayMillis: 1000,
          fullDiskMillis: 1000,
          wrongClockMillis: 1000,
          wholeTimeoutMillis: 60_000,
          blockMillis: blockSeconds * 1000,
        },
      },
      report,
      new AbortController().signal,
    );
    const { lines, isGood } = reportOf(outcome);
    assert.ok(isGood, [...reports, ...lines].join('\n'));
    assert.ok(outcome.faults.length >= 1 && outcome.faults.every(({ isSkipped }) => !isSkipped));
    assert.ok(outcome.writes.samplesAcknowledged >= 40_000, lines.join('\n'));
    // Everything, and again without each of three groups.
    assert.ok(outcome.reads.samplesHeld >= 4 * outcome.writes.samplesAcknowledged);
    assert.deepEqual(outcome.surprises, []);
  } finally {
    await cluster.stop();
  }
});
