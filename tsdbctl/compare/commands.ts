/** `compare`: the same queries to two databases. */
import { realEnv } from '#lib/env/real.ts';
import { badRequest, messageOf } from '#lib/errors.ts';
import { parseTimestampNanos } from '#lib/time.ts';
import { checkIsThere, type Call, type Command, headersOf, operandOf } from '../command.ts';
import { answerOfCoordinator, type CoordinatorAnswer, sendJson, urlBelow } from '../coordinator.ts';
import { compareAnswers, isSame, partialReasonOf, type RangeAnswer } from './answers.ts';
import { queriesOf, queriesOfText } from './queries.ts';

const rangeDefaultSeconds = 3600;
/** So many queries without a value are made at most for each that is asked for: a large M3 names metrics of years. */
const emptyForEach = 10;

export const compareCommands: Readonly<Record<string, Command>> = {
  compare: {
    usage: `tsdbctl compare URL URL [--from TIME] [--to TIME] [--step DURATION] [--queries FILE | --count N] [--rows]
  asks two databases with Prometheus' API, be they M3, Prometheus or this one, the same queries over a range, and tells what differs
  by more than the last digits; the exit code is 1 when something does, a query is refused or answered in part, or no value was compared
  --from TIME        an hour before --to when not given
  --to TIME          now when not given
  --step DURATION    1m when not given
  --queries FILE     one a line, perhaps behind a name and a tab; else they are made of the metrics of the first database
  --count N          of those that are made, and have a value in one of the two at least; 100 when not given
  --rows             tells of queries without a difference, too
  --header NAME=VALUE  of each request, as of a proxy or a tenant; any number of times`,
    async run(call) {
      const urls = [operandOf(call, 0, 'URL'), operandOf(call, 1, 'the second URL')] as const;
      if (urlBelow(urls[0], '').href === urlBelow(urls[1], '').href) {
        throw badRequest(`both are the same database: ${urls[0]}`);
      }
      const range = rangeOf(call);
      const { queries, countMax } = await queriesFor(call, urls, range);
      let [asked, same, empty, refused, inPart, values] = [0, 0, 0, 0, 0, 0];
      let next = queries.next();
      while (next.done !== true && asked < countMax && empty < emptyForEach * countMax) {
        const query = next.value;
        const said = await compared(query, urls, range, headersOf(call.options.header));
        const saysNothing = said.refusal !== '' || said.partial !== '';
        const isEmpty = said.difference === '' && !saysNothing && said.values === 0;
        next = queries.next(!isEmpty);
        values += said.values;
        if (isEmpty) empty += 1;
        else asked += 1;
        if (said.refusal !== '') {
          refused += 1;
          call.print(`refused by both  ${query}\n  ${said.refusal}`);
        } else if (said.partial !== '') {
          inPart += 1;
          call.print(`in part  ${query}\n  ${said.partial}`);
        } else if (said.difference !== '') call.print(`differs  ${query}\n  ${said.difference}`);
        else {
          if (!isEmpty) same += 1;
          if (call.options.rows) call.print(`same  ${query}  ${said.values} values`);
        }
      }
      if (asked + empty === 0) {
        throw badRequest('there is no metric to ask for: see --from and --queries');
      }
      const without =
        (refused === 0 ? '' : `, ${refused} are refused by both`) +
        (inPart === 0 ? '' : `, ${inPart} are answered in part, which says nothing`) +
        (empty === 0 ? '' : `; ${empty} more have no value in either, which says nothing`);
      call.print(
        `${same} of ${asked} queries have the same answer, ${values} values are equal${without}`,
      );
      return same === asked && values > 0 ? 0 : 1;
    },
  },
};

interface Range {
  readonly start: string;
  readonly end: string;
  readonly step: string;
}

function rangeOf({ options: { from, to, step } }: Call): Range {
  const seconds = (text: string, name: string): number =>
    Number(parseTimestampNanos(text, name)) / 1e9;
  const end = to === null ? Math.floor(realEnv.clock.nowMillis() / 1000) : seconds(to, '--to');
  const start = from === null ? end - rangeDefaultSeconds : seconds(from, '--from');
  if (start >= end) throw badRequest('--to must be after --from');
  return { start: String(start), end: String(end), step };
}

interface Queries {
  /** Takes whether the one before had a value. */
  readonly queries: Iterator<string, void, boolean>;
  /** Of those that have a value. */
  readonly countMax: number;
}

async function queriesFor(
  { options }: Call,
  urls: readonly [string, string],
  range: Range,
): Promise<Queries> {
  if (options.queries !== null) {
    await checkIsThere('file', options.queries);
    const text = new TextDecoder().decode(await realEnv.disk.readFile(options.queries));
    return { queries: queriesOfText(text).values(), countMax: Infinity };
  }
  const count = Number(options.count);
  if (!/^\d{1,6}$/.test(options.count) || count === 0) {
    throw badRequest(`--count is not a whole number from 1: ${options.count}`);
  }
  const between = new URLSearchParams({ start: range.start, end: range.end });
  const list = async (url: string, path: string): Promise<readonly string[]> => {
    const { text } = await get(url, `/api/v1/${path}?${between}`, headersOf(options.header));
    return (JSON.parse(text) as { readonly data: readonly string[] | null }).data ?? [];
  };
  const [names, others] = await Promise.all([
    list(urls[0], 'label/__name__/values'),
    // Whether it answers is seen with the queries.
    list(urls[1], 'label/__name__/values').catch((): readonly string[] => []),
  ]);
  // M3 names metrics of all times, whatever the range is: first come those that both have.
  const both = new Set(names).intersection(new Set(others));
  const all = [...both, ...names.filter((name) => !both.has(name))];
  return { queries: queriesOf(all, await list(urls[0], 'labels')), countMax: count };
}

async function get(
  url: string,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<CoordinatorAnswer> {
  return await answerOfCoordinator(sendJson, {
    coordinator: url,
    method: 'GET',
    path,
    headers,
    what: 'compare',
  });
}

interface Compared {
  /** '' for none. */
  readonly difference: string;
  /** Why both refuse the query; '' when one of them has an answer. */
  readonly refusal: string;
  /** Which of them answers a part of what there is, and why; '' when none does. */
  readonly partial: string;
  readonly values: number;
}

async function compared(
  query: string,
  urls: readonly [string, string],
  { start, end, step }: Range,
  headers: Readonly<Record<string, string>>,
): Promise<Compared> {
  const parameters = new URLSearchParams({ query, start, end, step });
  const [a, b] = await Promise.all(
    urls.map(async (url) => {
      try {
        const { text, headers: answered } = await get(
          url,
          `/api/v1/query_range?${parameters}`,
          headers,
        );
        const answer = JSON.parse(text) as RangeAnswer;
        const reason = partialReasonOf(answer, answered);
        return { series: answer.data.result, partial: reason === '' ? '' : `${url}: ${reason}` };
      } catch (error) {
        return messageOf(error);
      }
    }),
  );
  if (typeof a === 'string' && typeof b === 'string') {
    return { difference: '', refusal: a, partial: '', values: 0 };
  }
  if (typeof a === 'string' || typeof b === 'string') {
    const difference = typeof a === 'string' ? a : (b as string);
    return { difference, refusal: '', partial: '', values: 0 };
  }
  // What one of them left out would be told as a difference, or hide one.
  const partial = a!.partial === '' ? b!.partial : a!.partial;
  if (partial !== '') return { difference: '', refusal: '', partial, values: 0 };
  const found = compareAnswers(a!.series, b!.series);
  const { equal, different, onlyInA, onlyInB, first } = found;
  const difference = isSame(found)
    ? ''
    : `${equal} values are equal, ${different} differ, ${onlyInA} are in the first alone, ${onlyInB} in the second; ${first}`;
  return { difference, refusal: '', partial: '', values: equal };
}
