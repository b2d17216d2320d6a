import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SeededRandom } from '../../seeded_random.ts';
import { allSeries, settleMillis, windowMillis } from './data.ts';
import { Ledger } from './ledger.ts';
import { reportOf, type SoakOutcome } from './report.ts';
import { type Comparison, compareWindows, type StoredRow } from './windows.ts';
import { SoakWriter } from './writer.ts';

const beginMillis = 1_795_000_000_000;
const range = { beginMillis, endMillis: beginMillis + 3 * windowMillis };

/** A row of each of two counters of an app in each window, and before. */
function someLedger(): Ledger {
  const ledger = new Ledger();
  for (let window = -1; window < 3; window++) {
    for (const series of [0, 1]) {
      const millis = beginMillis + window * windowMillis + 1_000 * (series + 1);
      const value = 10 * (window + 2) * (series + 1);
      const row = { series, millis, value, isLate: false, isTwice: false };
      ledger.add({ ...row, acknowledgedMillis: millis + 1 });
    }
  }
  return ledger;
}

/** What rollups of it come to, as somebody would write it down. */
const stored: readonly StoredRow[] = [1, 2, 3].flatMap((window) => {
  const millis = beginMillis + window * windowMillis;
  const tags = (name: string, more = ''): string =>
    `__name__=${name},__rollup__=true,${more}app=app0`;
  return [
    { series: tags('soak_requests_total'), millis, value: 30 * window },
    { series: tags('soak_rows', 'agg=.count,'), millis, value: 2 },
    { series: tags('soak_rows', 'agg=.upper,'), millis, value: 20 * (window + 1) },
    // Of the window before there is nothing to compare the first one with: rules hold from there on.
    ...(window === 1 ? [] : [{ series: tags('soak_requests_rate'), millis, value: 3 }]),
  ];
});

const compared = (rows: readonly StoredRow[]): Comparison =>
  compareWindows(someLedger().series(), beginMillis, range, rows);

const countsOf = ({ missing, doubled, wrong }: Comparison): object => ({ missing, doubled, wrong });

test('windows are held against the twin: a gap, a double and a wrong value are told', () => {
  const whole = compared(stored);
  assert.deepEqual(whole.differences, { missing: [], doubled: [], wrong: [] });
  assert.deepEqual([whole.compared, whole.windows, whole.series], [stored.length, 3, 4]);

  const [first, ...others] = stored as [StoredRow, ...StoredRow[]];
  const gap = compared(others);
  assert.deepEqual(countsOf(gap), { missing: 1, doubled: 0, wrong: 0 });
  assert.deepEqual(gap.differences.missing, [
    {
      series: '__name__=soak_requests_total,__rollup__=true,app=app0',
      end: new Date(beginMillis + windowMillis).toISOString(),
      expected: 30,
      found: [],
    },
  ]);
  const twice = compared([...stored, { ...first, millis: first.millis - 1 }]);
  assert.deepEqual(countsOf(twice), { missing: 0, doubled: 1, wrong: 0 });
  const value = compared([{ ...first, value: 31 }, ...others]);
  assert.deepEqual(countsOf(value), { missing: 0, doubled: 0, wrong: 1 });
  const elsewhere = compared([{ ...first, millis: first.millis - 1 }, ...others]);
  assert.deepEqual(countsOf(elsewhere), { missing: 0, doubled: 0, wrong: 1 });
  const unexpected = compared([...stored, { ...first, series: '__name__=other,__rollup__=true' }]);
  assert.deepEqual(countsOf(unexpected), { missing: 0, doubled: 0, wrong: 1 });
  assert.equal(unexpected.differences.wrong[0]!.expected, null);
});

test('the writer has every row acknowledged in the end, and sends some twice', async () => {
  let asked = 0;
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      asked += 1;
      response.statusCode = asked % 2 === 1 ? 503 : 200;
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const ledger = new Ledger();
    const writer = new SoakWriter(url, ledger, new SeededRandom(1), () => {}, 3_000);
    const never = new AbortController().signal;
    await writer.run(AbortSignal.timeout(6_000), never);
    const { rows, late, twice, refused, attemptsFailed } = writer.counts;
    assert.ok(rows > 2 * 0.7 * allSeries.length, `${rows} rows`);
    assert.ok(late > rows / 20 && late < rows / 5, `${late} late of ${rows}`);
    assert.ok(twice > rows / 50 && twice < rows / 10, `${twice} twice of ${rows}`);
    assert.equal(refused, 0);
    assert.ok(attemptsFailed > 0);
    assert.deepEqual([ledger.unacknowledged, ledger.acknowledgedTooLate], [0, 0]);
    for (const { rows: of } of ledger.series()) {
      for (const [i, { nanos }] of of.entries()) assert.ok(i === 0 || nanos > of[i - 1]!.nanos);
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a row that was acknowledged too late to be in its window is told', () => {
  const ledger = someLedger();
  const row = { series: 0, millis: range.endMillis + 1, value: 1, isLate: true, isTwice: false };
  const dueMillis = range.endMillis + windowMillis + settleMillis;
  ledger.add({ ...row, acknowledgedMillis: dueMillis });
  assert.equal(ledger.acknowledgedTooLate, 0);
  ledger.add({ ...row, millis: row.millis + 1, acknowledgedMillis: dueMillis + 1 });
  assert.equal(ledger.acknowledgedTooLate, 1);
});

test('the report fails by what differs, and by what makes a run say nothing', () => {
  const outcome: SoakOutcome = {
    seconds: 300,
    seed: 1,
    writes: {
      rows: 100,
      late: 10,
      twice: 5,
      requests: 20,
      attemptsFailed: 1,
      refused: 0,
      slowestMillis: 1_200,
    },
    unacknowledged: 0,
    acknowledgedTooLate: 0,
    faults: [
      { time: '', name: 'kill', what: 'agg-a1' },
      { time: '', name: 'change', what: 'agg-b1 replaced by agg-b4' },
      { time: '', name: 'store hangs', what: '60 s' },
    ],
    asked: { kills: 1, changes: 1 },
    finalSeconds: 70,
    corrections: 3,
    comparison: compared(stored),
    failures: [],
    surprises: [],
    usage: new Map([['agg-a1', { cpuSeconds: 3, rssMaxBytes: 2 ** 27 }]]),
  };
  const good = reportOf(outcome);
  assert.ok(good.isGood, good.lines.join('\n'));
  assert.match(good.lines.join('\n'), /0 missing, 0 doubled, 0 wrong/);
  const wrong = reportOf({ ...outcome, comparison: compared(stored.slice(1)) });
  assert.equal(wrong.isGood, false);
  assert.match(
    wrong.lines.join('\n'),
    /missing: \{__name__=soak_requests_total,.*expected 30, found nothing/,
  );
  for (const [change, told] of [
    [{ acknowledgedTooLate: 1 }, /NOT VALID: 1 rows were acknowledged when/],
    [{ unacknowledged: 2 }, /NOT VALID: 2 rows were not acknowledged/],
    [{ asked: { kills: 2, changes: 1 } }, /NOT VALID: 1 kills instead of 2/],
    [{ comparison: null }, /NOT VALID: no window was compared/],
    [{ failures: ['no leader'] }, /FAILURE no leader/],
    [{ surprises: ['node-a'] }, /ended by themselves: 1/],
  ] as const) {
    const { isGood, lines } = reportOf({ ...outcome, ...change });
    assert.equal(isGood, false);
    assert.match(lines.join('\n'), told);
  }
});

test('bad options are answered with the usage', () => {
  const main = fileURLToPath(new URL('../aggregators_soak_run.ts', import.meta.url));
  for (const args of [
    ['--kill', '1'],
    ['--kills', 'many'],
    ['--seconds-between', '24'],
  ]) {
    const { status, stderr } = spawnSync(process.execPath, [main, ...args], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    assert.equal(status, 2, stderr);
    assert.match(stderr, /--seconds-between N +between two kills, at least 25/);
  }
});
