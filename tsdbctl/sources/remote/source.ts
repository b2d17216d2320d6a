/** A running M3 or Prometheus, or whoever answers remote read: a slice of time is a part. */
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';
import { decodeSnappy, encodeSnappy } from '#engine/write_decoder/snappy.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { askedMillisOf, elsewhereOf, isPassing, Pauses, retryText } from '../../retry.ts';
import type { ImportPart, ImportSource } from '../source.ts';
import { seriesOfResponse } from './read_response.ts';

export interface RemoteRange {
  /** Of remote read. */
  readonly url: string;
  /** Inclusive. */
  readonly startMillis: number;
  /** Exclusive; what is later than now is not asked for. */
  readonly endMillis: number;
  readonly sliceMillis: number;
  /** Anchored, of metrics' names. */
  readonly names: string;
  /** Of each request, such as a proxy asks for; names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** An answer is whole in memory, before and after it is decompressed. */
const answerBytesMax = 2 ** 31 - 1;
const slicesMax = 1_000_000;
/** So long rows of a time come late, as M3 takes them by default: slices that end later are asked for again by a later call. */
const lateMillis = 10 * 60_000;
/** So much may the clock of a source be behind the one of this machine. */
const behindMillisMax = 60_000;
const answerMillisMax = 10 * 60_000;
const equalRegexp = 2;
/** An answer with one of them is a part of what was asked for. */
const limitedHeaders = ['m3-results-limited', 'tsdb-results-limited', 'm3-returned-data-limited'];
/** Headers by which M3, and who takes its headers, is told which namespaces it answers from. */
export const choosingHeader: RegExp =
  /^(?:m3|tsdb)-(?:metrics-type|storage-policy|restrict-by-storage-policies)$/;

type RemoteClock = Pick<Clock, 'deadline' | 'nowMillis' | 'monotonicMillis' | 'sleep'>;

/**
 * @param onRetry is told why a request is sent again
 * @throws {TsdbError} BAD_REQUEST for a range that makes no sense
 */
export function remoteSource(
  range: RemoteRange,
  clock: RemoteClock,
  signal: AbortSignal,
  onRetry: (reason: string) => void = () => {},
): ImportSource {
  const { url, startMillis, sliceMillis } = range;
  const nowMillis = Math.floor(clock.nowMillis());
  const endMillis = Math.min(range.endMillis, nowMillis);
  if (!URL.canParse(url) || !/^https?:/.test(url)) {
    throw badRequest(`not a URL such as http://prometheus:9090/api/v1/read: ${url}`);
  }
  const slices = Math.ceil((endMillis - startMillis) / sliceMillis);
  if (!(slices > 0)) throw badRequest('--from is not before --to and before now');
  if (slices > slicesMax) throw badRequest(`--slice: more than ${slicesMax} slices: ${slices}`);
  const asking = { clock, signal, onRetry, hasAnswered: false };
  const partOf = (_: unknown, index: number): ImportPart => {
    const first = startMillis + index * sliceMillis;
    const past = Math.min(first + sliceMillis, endMillis);
    const within = {
      startNanos: BigInt(first) * nanosPerMilli,
      endNanos: BigInt(past) * nanosPerMilli,
    };
    const isOver = past + lateMillis <= nowMillis;
    return {
      // Slices that are named in another way, in a state of before, lack their last millisecond.
      name: `${first} to ${past}${isOver ? '' : ` at ${nowMillis}`}`,
      ...within,
      bytes: 1,
      contents: [],
      changes: true,
      async *series(skip) {
        const message = await messageOfSlice(range, first, past, isOver, asking);
        let at = 0;
        let [broken, example] = [0, ''];
        const onBroken = (problem: string): void => {
          broken += 1;
          if (broken === 1) example = problem;
        };
        for (const series of seriesOfResponse({ message, within, onBroken }, url)) {
          if (series.timestampNanos.length + (series.histograms?.length ?? 0) === 0) continue;
          if (at++ >= skip) yield series;
        }
        if (broken === 0) return;
        // Behind all else of the slice, which may be taken.
        throw badRequest(
          `cannot read ${url}: ${broken} native histograms break their rules, one of them: ${example} (--skip-damaged leaves out these alone)`,
        );
      },
    };
  };
  return { parts: async () => Array.from({ length: slices }, partOf), notes: [], unfinished: 0 };
}

/** What all requests of a source have. */
interface Asking {
  readonly clock: RemoteClock;
  readonly signal: AbortSignal;
  readonly onRetry: (reason: string) => void;
  /** Before that a wrong address is more likely than one that is away. */
  hasAnswered: boolean;
}

interface Answered {
  readonly response: Response;
  readonly bytes: Uint8Array;
}

/**
 * A ReadResponse.
 * @param endMillis inclusive to Prometheus, and exclusive to M3: what comes may have rows of that time, or none
 * @param isOver no rows of the slice come any more, and it is not asked for again
 * @throws {TsdbError} UNAVAILABLE when there is no answer, or a refusal, CONFLICT when the slice is not over to who answers, and
 * BAD_REQUEST for an answer that is not whole
 */
async function messageOfSlice(
  range: RemoteRange,
  startMillis: number,
  endMillis: number,
  isOver: boolean,
  asking: Asking,
): Promise<Uint8Array> {
  const { url } = range;
  const body = requestOf(range.names, startMillis, endMillis);
  const { response, bytes } = await answerOf(range, body, asking);
  const thereMillis = Date.parse(response.headers.get('date') ?? '');
  if (isOver && thereMillis < endMillis + lateMillis - behindMillisMax) {
    const [there, here] = [thereMillis, asking.clock.nowMillis()].map((millis) =>
      new Date(millis).toISOString(),
    );
    throw new TsdbError(
      'CONFLICT',
      `cannot read ${url}: rows of a slice may still come by its clock, which says ${there}, and not by that of this machine, which says ${here}: set the clocks`,
    );
  }
  for (const name of limitedHeaders) {
    const said = response.headers.get(name);
    if (said === null) continue;
    throw badRequest(
      `cannot read ${url}: it answers a part of what was asked for (${name}: ${said}): ask for less at once, by --names or --slice`,
    );
  }
  try {
    return decodeSnappy(bytes, answerBytesMax);
  } catch (error) {
    const type = response.headers.get('content-type') ?? 'none';
    throw badRequest(
      `cannot read ${url}: its answer is none of remote read (content-type ${type}): ${messageOf(error)}`,
      { cause: error },
    );
  }
}

function requestOf(names: string, startMillis: number, endMillis: number): Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const matcher = new MessageWriter();
  matcher.int64Field(1, equalRegexp);
  matcher.bytesField(2, encoder.encode('__name__'));
  matcher.bytesField(3, encoder.encode(names));
  const query = new MessageWriter();
  query.int64Field(1, startMillis);
  query.int64Field(2, endMillis);
  query.bytesField(3, matcher.finish());
  const request = new MessageWriter();
  request.bytesField(1, query.finish());
  return encodeSnappy(request.finish());
}

/** Sends a request again while it fails for a passing reason. @throws {TsdbError} UNAVAILABLE, which is no damage of the source */
async function answerOf(
  range: RemoteRange,
  body: Uint8Array<ArrayBuffer>,
  asking: Asking,
): Promise<Answered> {
  const { clock, signal, onRetry } = asking;
  const fail = (reason: string) =>
    new TsdbError('UNAVAILABLE', `cannot read ${range.url}: ${reason}`);
  const pauses = new Pauses(clock, signal);
  for (;;) {
    const answered = await answerOrReason(range, body, asking);
    let reason: string;
    let askedMillis = 0;
    if (typeof answered === 'string') {
      reason = answered;
      if (!asking.hasAnswered) throw fail(reason);
    } else {
      asking.hasAnswered = true;
      const { response, bytes } = answered;
      const { status } = response;
      if (status === 200) return answered;
      const text = Buffer.from(bytes.subarray(0, 1000)).toString().trim();
      reason = `it answers ${status}: ${text}`;
      const elsewhere = elsewhereOf(response);
      if (elsewhere !== null) {
        throw fail(`it answers ${status}: it is at ${elsewhere}: name that address`);
      }
      if (!isPassing(status)) throw fail(reason);
      askedMillis = askedMillisOf(response);
    }
    if (pauses.isOver) throw fail(`${reason}, for ${retryText}`);
    onRetry(reason);
    await pauses.wait(askedMillis);
  }
}

/** One attempt. @returns why there is no answer. @throws {TsdbError} CANCELLED */
async function answerOrReason(
  { url, headers }: RemoteRange,
  body: Uint8Array<ArrayBuffer>,
  { clock, signal }: Asking,
): Promise<Answered | string> {
  const isChosen = Object.keys(headers).some((name) => choosingHeader.test(name));
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/x-protobuf',
        'content-encoding': 'snappy',
        'x-prometheus-remote-read-version': '0.1.0',
        // Else M3 compresses what is compressed once more, and does not say so.
        'accept-encoding': 'identity',
        // M3 else may leave series out, with 200.
        'm3-limit-require-exhaustive': 'true',
        // M3 else answers what is older than its samples from aggregated namespaces, whose windows would become samples here.
        ...(isChosen ? {} : { 'm3-metrics-type': 'unaggregated' }),
        ...headers,
      },
      body,
      // Elsewhere it would be asked for with a GET and without its body, or be the cluster that rows go to.
      redirect: 'manual',
      signal: clock.deadline(answerMillisMax, signal),
    });
    return { response, bytes: new Uint8Array(await response.arrayBuffer()) };
  } catch (error) {
    // It is no damage of the source.
    if (signal.aborted) {
      throw new TsdbError('CANCELLED', messageOf(signal.reason), { cause: error });
    }
    // What fetch throws says the reason in its cause.
    return messageOf((error as { readonly cause?: unknown }).cause ?? error);
  }
}
