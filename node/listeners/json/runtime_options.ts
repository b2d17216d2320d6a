/**
 * M3's calls that read and set options of one node while it runs. What has no meaning here answers what holds, and takes
 * no other value.
 */
import { badRequest } from '#lib/errors.ts';
import type { JsonBackend } from './backend.ts';
import type { JsonFields } from './fields.ts';
import type { JsonMethod } from './method.ts';
import { timeTypeOf } from './requests.ts';

type Answer = (backend: JsonBackend) => object;

/** The two calls of an option. @param set throws for what does not hold */
function option(
  name: string,
  answer: Answer,
  set: (fields: JsonFields, backend: JsonBackend) => void,
): readonly (readonly [string, JsonMethod])[] {
  const text = (backend: JsonBackend): string => `${JSON.stringify(answer(backend))}\n`;
  return [
    [`/get${name}`, { verb: 'GET', call: async (backend) => text(backend) }],
    [
      `/set${name}`,
      {
        verb: 'POST',
        call: async (backend, fields) => {
          set(fields, backend);
          return text(backend);
        },
      },
    ],
  ];
}

const perShardMax = 1_000_000_000n;

export const runtimeMethods: readonly (readonly [string, JsonMethod])[] = [
  ...option(
    'persistratelimit',
    () => ({ limitEnabled: false, limitMbps: 0, limitCheckEvery: 0 }),
    (fields) => {
      const isEnabled = fields.booleanOr('limitEnabled', false);
      for (const name of ['limitMbps', 'limitCheckEvery']) {
        if (fields.has(name)) fields.sample(name);
      }
      fields.end();
      if (isEnabled) throw badRequest('limitEnabled: filesets are written without a limit: true');
    },
  ),
  ...option(
    'writenewseriesasync',
    () => ({ writeNewSeriesAsync: false }),
    (fields) => {
      const isAsync = fields.booleanOr('writeNewSeriesAsync', false);
      fields.end();
      if (isAsync) {
        throw badRequest('writeNewSeriesAsync: a write is answered when its series is there: true');
      }
    },
  ),
  ...option(
    'writenewseriesbackoffduration',
    () => ({ writeNewSeriesBackoffDuration: 0, durationType: 'UNIX_MILLISECONDS' }),
    (fields) => {
      const duration = fields.whole('writeNewSeriesBackoffDuration');
      timeTypeOf(fields, 'durationType');
      fields.end();
      if (duration !== 0n) {
        throw fields.bad(
          'writeNewSeriesBackoffDuration',
          'is not 0: new series wait for nothing',
          duration,
        );
      }
    },
  ),
  ...option(
    'writenewserieslimitpershardpersecond',
    ({ limits }) => ({
      writeNewSeriesLimitPerShardPerSecond: limits?.newSeriesPerShardPerSecondMax ?? 0,
    }),
    (fields, { limits }) => {
      const name = 'writeNewSeriesLimitPerShardPerSecond';
      const max = fields.whole(name);
      fields.end();
      if (max < 0n || max > perShardMax) {
        throw fields.bad(name, `is not from 0 (no limit) to ${perShardMax}`, max);
      }
      limits?.limitNewSeries(Number(max));
    },
  ),
];
