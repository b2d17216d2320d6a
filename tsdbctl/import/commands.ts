/** `data import`: history of another database into a running cluster. */
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { parseDurationNanos, parseTimestampNanos } from '#lib/time.ts';
import {
  type Call,
  checkIsThere,
  type Command,
  headersOf,
  operandOf,
  type Options,
} from '../command.ts';
import { Journal, notTakenOf, type Progress, rowsOf } from './journal.ts';
import { labelled, labelsOf, leftOutOf, without } from '../sources/labelled.ts';
import { readableDisk } from '../sources/readable_disk.ts';
import { m3Source } from '../sources/m3/source.ts';
import { prometheusSource } from '../sources/prometheus/prometheus_source.ts';
import { choosingHeader, remoteSource } from '../sources/remote/source.ts';
import { histogramsDropped, runImport } from './run.ts';
import { allTimes, type ImportPart, type ImportSource } from '../sources/source.ts';
import { problemOf, surveyOf } from './survey.ts';
import { listedParts } from './taking.ts';
import { urlBelow } from '../coordinator.ts';
import { Target, type TakingNamespace } from './target.ts';
import { verifySource } from './verify.ts';

const usage = `tsdbctl data import m3 FOLDER --namespace NAME [--from TIME] [--to TIME] …
tsdbctl data import prometheus FOLDER [--from TIME] [--to TIME] …
tsdbctl data import remote URL --from TIME [--to TIME] [--slice 30m] [--names REGEXP] …
  takes history over into a running cluster: filesets, snapshots and commit logs of a node of M3 (all nodes of one isolation group are
  one whole copy where there are as many groups as replicas), blocks of Prometheus, or what an M3 or Prometheus that runs answers to
  remote read. Rows are written as any others are, at their own times, so that a namespace with "coldWritesEnabled" has to be ready.
  Called again it goes on where it stopped, and reads parts again of which rows were refused
  --coordinator URL  where they go; http://127.0.0.1:7201 when not given
  --namespace NAME   of M3
  --from TIME        2026-01-01T00:00:00Z or Unix seconds; inclusive
  --to TIME          exclusive; all that a folder has, and of remote what is there now, when not given
  --slice DURATION   of time that is asked for at once
  --names REGEXP     of metrics of remote, anchored; all when not given
  --header NAME=VALUE  of each request to remote read, as of a proxy or a tenant; any number of times. An M3 is asked for samples
                     alone unless one of them is M3-Metrics-Type
  --label NAME=VALUE   a label that all series get that have none of the name, as Prometheus' external labels, which are not in its blocks;
                     without VALUE the label is left out; any number of times
  --leave-out NAME[=VALUE]  series that have the label, or have it with this value, are not taken over; any number of times
  --rate ROWS        at most so many a second
  --parallel N       requests at a time; 2 when not given
  --state FILE       how far it has come, one for each source; tsdb-import.json when not given
  --skip-damaged     passes over what is damaged in the source, and names it
  --skip-untagged    series of M3 whose tags cannot be read are left out in any case; with it that is no failure
  --skip-unfinished  the same of filesets of M3 that were not written to their ends
  --skip-deleted     the same of what the source deleted before it was read, since its retention was over
  --dry-run          reads everything, writes nothing, and says whether the cluster would take it
  --verify           compares the cluster with the source, row by row, and writes nothing`;

/** How often progress is printed. */
const progressMillis = 5_000;
/** Parts that are lost and named; the others are counted. */
const lostNamedMax = 20;

/** Options that are about some kinds of sources alone. */
const kindsOfOptions: Readonly<Record<string, readonly string[]>> = {
  namespace: ['m3'],
  'skip-untagged': ['m3'],
  'skip-unfinished': ['m3'],
  'skip-deleted': ['m3', 'prometheus'],
  slice: ['remote'],
  names: ['remote'],
  header: ['remote'],
};

/** @throws {TsdbError} BAD_REQUEST for an option that would be passed over */
function checkKind(kind: string, { given, options }: Call): void {
  for (const name of given) {
    const kinds = kindsOfOptions[name];
    if (kinds !== undefined && !kinds.includes(kind)) {
      throw badRequest(`--${name} is about ${kinds.join(' and ')}, not about ${kind}`);
    }
  }
  if (options.verify && options.dryRun) throw badRequest('--verify and --dry-run: one of them');
}

interface ImportRange {
  readonly startNanos: bigint | null;
  readonly endNanos: bigint;
}

export const importCommands: Readonly<Record<string, Command>> = {
  'data import': {
    usage,
    async run(call) {
      const { options, print } = call;
      const stop = new AbortController();
      process.once('SIGINT', () =>
        stop.abort(badRequest('stopped; it goes on when it is called again')),
      );
      const kind = operandOf(call, 0, 'm3, prometheus or remote');
      const where = operandOf(call, 1, kind === 'remote' ? 'URL' : 'FOLDER');
      checkKind(kind, call);
      if (kind === 'remote' && URL.canParse(where)) {
        const { origin } = new URL(where);
        if (origin === urlBelow(options.coordinator, '').origin) {
          throw badRequest(`it would be taken over into itself: ${origin} (--coordinator)`);
        }
      }
      const range = rangeOf(call, kind, realEnv.clock);
      const labels = labelsOf(options.label);
      let lastReason = '';
      const onRetry = (reason: string): void => {
        if (reason !== lastReason) print(`waits: ${reason}`);
        lastReason = reason;
      };
      const all = await sourceOf(kind, where, range, call, { onRetry, signal: stop.signal });
      const source = labelled(without(all, leftOutOf(options.leaveOut)), labels);
      const target = new Target(options.coordinator, realEnv.clock, stop.signal, onRetry);
      const importing = { kind, where, range, source, target, signal: stop.signal };
      try {
        if (options.verify) return await verify(call, importing);
        return await importInto(call, importing);
      } catch (error) {
        // A pause that was cut short does not say why.
        if (error instanceof Error && error.name === 'AbortError') stop.signal.throwIfAborted();
        throw error;
      } finally {
        for (const note of source.notes) print(note);
      }
    },
  },
};

function rangeOf({ options }: Call, kind: string, clock: Clock): ImportRange {
  const { from, to } = options;
  // A part of a folder that is cut at now would have more rows at the next call, and the same name.
  const last = kind === 'remote' ? clock.nowNanos() : allTimes.endNanos;
  const endNanos = to === null ? last : parseTimestampNanos(to, '--to');
  return { startNanos: from === null ? null : parseTimestampNanos(from, '--from'), endNanos };
}

async function sourceOf(
  kind: string,
  where: string,
  { startNanos, endNanos }: ImportRange,
  { options }: Call,
  { onRetry, signal }: { readonly onRetry: (reason: string) => void; readonly signal: AbortSignal },
): Promise<ImportSource> {
  if (kind === 'remote') {
    if (startNanos === null) throw badRequest('--from is not given');
    return remoteSource(
      {
        url: where,
        startMillis: Number(startNanos / 1_000_000n),
        endMillis: Number(endNanos / 1_000_000n),
        sliceMillis: Number(parseDurationNanos(options.slice, '--slice') / 1_000_000n),
        names: options.names,
        headers: headersOf(options.header),
      },
      realEnv.clock,
      signal,
      onRetry,
    );
  }
  await checkIsThere('folder', where);
  const within = { startNanos: startNanos ?? allTimes.startNanos, endNanos };
  const disk = readableDisk(realEnv.disk);
  if (kind === 'prometheus') return prometheusSource(where, disk, within);
  if (kind === 'm3') {
    if (options.namespace === null) throw badRequest('--namespace is not given: that of M3');
    return m3Source(where, { namespace: options.namespace, range: within }, disk);
  }
  throw badRequest(`neither m3, prometheus nor remote: ${shownText(kind)}\n\n${usage}`);
}

interface Importing {
  readonly kind: string;
  readonly where: string;
  readonly range: ImportRange;
  readonly source: ImportSource;
  readonly target: Target;
  readonly signal: AbortSignal;
}

/** @returns the exit code: 1 when rows were refused or left out, or would be */
async function importInto(call: Call, importing: Importing): Promise<number> {
  const { options, print } = call;
  const { kind, where, range, source, target, signal } = importing;
  const { clock, disk } = realEnv;
  const parts = await listedParts(source);
  const startNanos = parts.reduce<bigint | null>(
    (least, part) => (least === null || part.startNanos < least ? part.startNanos : least),
    null,
  );
  const namespaces = await target.namespaces();
  if (options.dryRun) {
    if (startNanos === null) return nothingToTake(print);
    return await dryRun(call, importing, namespaces);
  }
  const now = clock.nowNanos();
  // Rows of the first day of a part may be old; whether they are is seen when they are written.
  const latest = parts.reduce((most, part) => (part.endNanos > most ? part.endNanos : most), 0n);
  const newest = latest < now ? latest : now;
  const problem =
    startNanos === null
      ? null
      : problemOf({ firstNanos: newest, lastNanos: newest }, now, namespaces);
  if (problem !== null) throw badRequest(problem);
  const { startNanos: from } = range;
  const of = {
    kind,
    source: JSON.stringify([
      withoutSlash(where),
      options.namespace,
      String(from),
      options.to,
      options.slice,
      options.names,
      ...options.label,
      ...options.leaveOut.map((text) => `without ${text}`),
      // Others may be secret, and may change while the rows are the same.
      ...Object.entries(headersOf(options.header))
        .filter(([name]) => choosingHeader.test(name))
        .map(([name, value]) => `with ${name}: ${value}`),
    ]),
    coordinator: withoutSlash(options.coordinator),
  };
  const journal = new Journal(disk, options.state, of, namespaces);
  const before = await journal.read();
  if (startNanos === null && before.waiting.size === 0) return nothingToTake(print);
  const rows = rowsOf(before);
  if (rows > 0 || before.taken.size > 0) {
    print(`goes on after ${before.taken.size} parts and ${rows} rows (${options.state})`);
  }
  const onProgress = progressPrinter(before, clock, print);
  const steps = { source, target, journal, clock, signal };
  const outcome = await runImport(
    {
      ...steps,
      async onProgress(progress, listed) {
        // A call of days is told when what it has written is gone.
        journal.checkNamespaces(await target.namespaces());
        onProgress(progress, listed);
      },
    },
    {
      parallel: numberOf(options.parallel, 'parallel', 64),
      rowsPerSecondMax: options.rate === null ? Infinity : numberOf(options.rate, 'rate', 1e9),
      skipsDamaged: options.skipDamaged,
      // Files of M3 have none.
      takesHistograms: kind === 'm3' || (await target.takesHistograms()),
    },
  );
  journal.checkNamespaces(await target.namespaces());
  for (const refusal of outcome.refusals) print(refusal);
  const { replaced, lost } = outcome;
  if (replaced.length > 0) {
    print(
      `${replaced.length} parts are not there any more, as ${replaced[0]}; what the source made of them is taken over`,
    );
  }
  for (const damaged of outcome.damaged) print(damaged);
  for (const line of lostLines(lost)) print(line);
  if (outcome.rows + outcome.refused + lost.length === 0 && outcome.damaged.length === 0) {
    return nothingToTake(print);
  }
  const leftOut = leftOutCounts(outcome, source);
  print(
    `${outcome.parts} parts are taken over: ${outcome.rows} rows, ${outcome.refused} refused${leftOutText(leftOut, options)}`,
  );
  if (outcome.refused > 0) print('parts with refused rows are read again by the next call');
  const isTaken = outcome.refused + outcome.damaged.length === 0;
  return isTaken && mayBeLeftOut(leftOut, options) ? 0 : 1;
}

/** @returns the exit code: 1 when something would be refused or left out */
async function dryRun(
  { options, print }: Call,
  { source, target, signal }: Importing,
  namespaces: readonly TakingNamespace[],
): Promise<number> {
  const damaged: string[] = [];
  const onPart = (part: ImportPart, rows: number): void => {
    if (rows > 0) print(`${part.name}: ${rows} rows`);
  };
  const onDamage = options.skipDamaged ? (line: string) => damaged.push(line) : undefined;
  const survey = await surveyOf(source, await target.tagRules(), signal, onPart, onDamage);
  for (const line of [...damaged, ...lostLines(survey.lost)]) print(line);
  const { series, rows, histograms, firstNanos, lastNanos } = survey;
  if (rows + histograms === 0) return nothingToTake(print);
  const leftOut = leftOutCounts(survey, source);
  print(
    `${survey.parts} parts, ${series} series in them, ${rows} rows, ${histograms} native histograms, from ${isoOf(firstNanos)} to ${isoOf(lastNanos)}${leftOutText(leftOut, options)}`,
  );
  for (const { series: count, example } of survey.refusals) {
    print(`${count} series would be refused, or rows of them, one of them: ${example}`);
  }
  const problems: string[] = [];
  if (histograms > 0 && !(await target.takesHistograms())) problems.push(histogramsDropped);
  const tooOld =
    firstNanos === null || lastNanos === null
      ? null
      : problemOf({ firstNanos, lastNanos }, realEnv.clock.nowNanos(), namespaces);
  if (tooOld !== null) problems.push(tooOld);
  for (const problem of problems) print(problem);
  const isTaken = problems.length + survey.refusals.length === 0;
  if (problems.length === 0) {
    print(isTaken ? 'the cluster takes them' : 'the cluster takes the others');
  }
  return isTaken && damaged.length === 0 && mayBeLeftOut(leftOut, options) ? 0 : 1;
}

interface LeftOutCounts {
  /** Series. */
  readonly untagged: number;
  /** Filesets. */
  readonly unfinished: number;
  /** Parts. */
  readonly deleted: number;
}

function leftOutCounts(
  { untagged, lost }: { readonly untagged: number; readonly lost: readonly string[] },
  { unfinished }: ImportSource,
): LeftOutCounts {
  return { untagged, unfinished, deleted: lost.length };
}

/** Of the first ones. */
function lostLines(lost: readonly string[]): readonly string[] {
  return lost
    .slice(0, lostNamedMax)
    .map((name) => `${name} was deleted by the source before all of it was read, and is lost`);
}

/** For the end of a result's line: '' when nothing is left out. */
function leftOutText(
  { untagged, unfinished, deleted }: LeftOutCounts,
  { skipUntagged, skipUnfinished, skipDeleted }: Options,
): string {
  const all: string[] = [];
  const add = (count: number, what: string, flag: string, isAllowed: boolean): void => {
    if (count > 0) all.push(`${count} ${what}${isAllowed ? '' : ` (${flag} allows that)`}`);
  };
  add(untagged, 'series whose tags cannot be read', '--skip-untagged', skipUntagged);
  add(unfinished, 'unfinished filesets', '--skip-unfinished', skipUnfinished);
  add(deleted, 'parts that the source deleted', '--skip-deleted', skipDeleted);
  return all.length === 0 ? '' : `; left out: ${all.join(', ')}`;
}

function mayBeLeftOut(
  { untagged, unfinished, deleted }: LeftOutCounts,
  { skipUntagged, skipUnfinished, skipDeleted }: Options,
): boolean {
  return (
    (untagged === 0 || skipUntagged) &&
    (unfinished === 0 || skipUnfinished) &&
    (deleted === 0 || skipDeleted)
  );
}

/** @returns the exit code: whoever imports expects something to be there */
function nothingToTake(print: (line: string) => void): number {
  print('there is nothing to take over');
  return 1;
}

const withoutSlash = (text: string): string => text.replace(/(?<=.)\/+$/, '');

function progressPrinter(
  before: Progress,
  clock: Clock,
  print: (line: string) => void,
): (progress: Progress, parts: readonly ImportPart[]) => void {
  const startMillis = clock.monotonicMillis();
  let saidMillis = startMillis;
  const rowsBefore = rowsOf(before);
  return (progress, parts) => {
    const now = clock.monotonicMillis();
    if (now - saidMillis < progressMillis) return;
    saidMillis = now;
    const { taken } = progress;
    const rows = rowsOf(progress);
    const { refused } = notTakenOf(progress, parts);
    const perSecond = Math.round(Math.max(0, rows - rowsBefore) / ((now - startMillis) / 1000));
    const all = parts.reduce((sum, { bytes }) => sum + bytes, 0);
    // Those of earlier lists that are not there any more are not counted.
    const takenNow = parts.filter(({ name }) => taken.has(name));
    const of = takenNow.reduce((sum, { bytes }) => sum + bytes, 0);
    const share = Math.floor((100 * of) / Math.max(all, 1));
    const said = refused === 0 ? '' : `, ${refused} refused`;
    print(
      `${share} %: ${takenNow.length} of ${parts.length} parts, ${rows} rows${said}, ${perSecond} a second`,
    );
  };
}

/** @returns the exit code: 1 when something is missing or different, or was left out of the source */
async function verify(
  { options, print }: Call,
  { kind, source, target, signal }: Importing,
): Promise<number> {
  // A wrong address is told at once by it, and what would be waited for: nobody makes a namespace to read back from it.
  if ((await target.namespaces()).length === 0) {
    throw badRequest('there is nothing to read back: no namespace of samples is READY');
  }
  const damaged: string[] = [];
  const onPart = (part: ImportPart, missing: number): void => {
    if (missing > 0) print(`${part.name}: ${missing} rows are missing`);
  };
  const onDamage = options.skipDamaged ? (line: string) => damaged.push(line) : undefined;
  const roundsValues = kind !== 'prometheus';
  const found = await verifySource(source, roundsValues, target, signal, onPart, onDamage);
  for (const line of [...damaged, ...lostLines(found.lost)]) print(line);
  if (found.rows + found.histogramsNotCompared === 0) return nothingToTake(print);
  for (const difference of found.differences) print(difference);
  const { series, rows, missing, different, rounded, histogramsNotCompared } = found;
  const leftOut = leftOutCounts(found, source);
  const others =
    (rounded === 0 ? '' : `, ${rounded} but for the last digits, as M3 rounds what it stores`) +
    (histogramsNotCompared === 0
      ? ''
      : `; ${histogramsNotCompared} native histograms were not compared`);
  print(
    `${series} series of parts, ${rows} rows: ${missing} missing, ${different} with another value${others}${leftOutText(leftOut, options)}`,
  );
  const isThere = missing + different + damaged.length === 0;
  return isThere && mayBeLeftOut(leftOut, options) ? 0 : 1;
}

function numberOf(text: string, name: string, most: number): number {
  const value = Number(text);
  if (/^\d{1,10}$/.test(text) && value >= 1 && value <= most) return value;
  throw badRequest(`--${name} is not a whole number from 1 to ${most}: ${text}`);
}

function isoOf(nanos: bigint | null): string {
  return nanos === null ? 'never' : new Date(Number(nanos / 1_000_000n)).toISOString();
}
