/** Series of histograms for tests, by seed. */
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { SeededNumbers } from '../../codec/samples_testing.ts';
import { encodeTypedRows } from '../../typed/codec.ts';
import { inColumns } from '../../typed/codec_fuzz.ts';
import { histogramOfValue, staleHistogram, valueOfHistogram } from '../../typed/histogram.ts';
import {
  customHistogramValues,
  deviceValues,
  histogramValues,
} from '../../typed/samples_testing.ts';

/** Of the first row. */
export const startNanos: bigint = 1_700_000_000_000_000_000n;

export interface Series {
  readonly values: readonly Uint8Array[];
  readonly chunks: readonly Uint8Array[];
}

/** What a series goes through: counters that begin anew, other schemas, custom bounds, gauges, ends. */
export function seriesOf(numbers: SeededNumbers, parts: number): Series {
  const values: Uint8Array[] = [];
  for (; parts > 0; parts--) {
    const count = 1 + numbers.below(12);
    const perRow = 5 + numbers.below(100);
    const schema = numbers.below(3) === 0 ? numbers.below(8) - 3 : 3;
    switch (numbers.below(7)) {
      case 0:
        values.push(...customHistogramValues(numbers, count));
        break;
      case 1:
        values.push(staleHistogram);
        break;
      case 2:
        values.push(...histogramValues(numbers, count, { perRow, schema, isGauge: true }));
        break;
      case 3:
        values.push(...histogramValues(numbers, count, { perRow, schema, scale: 1 / 3 }));
        break;
      case 4:
        values.push(...deviceValues(numbers, 1));
        break;
      case 5: {
        // Both sides, with a zero bucket that has become wider.
        const mirrored = histogramValues(numbers, count, { perRow, schema }).map((value) => {
          const histogram = histogramOfValue(value);
          const { positive, count: half } = histogram;
          const zeroThreshold = 2 ** -20;
          return valueOfHistogram({
            ...histogram,
            zeroThreshold,
            negative: positive,
            count: 2 * half - histogram.zeroCount,
          });
        });
        values.push(...mirrored);
        break;
      }
      default:
        values.push(...histogramValues(numbers, count, { perRow, schema }));
    }
  }
  const chunks: Uint8Array[] = [];
  for (let first = 0, past = 0; first < values.length; first = past) {
    past = Math.min(values.length, first + 1 + numbers.below(40));
    const timestampNanos = BigInt64Array.from(
      { length: past - first },
      (_, i) => startNanos + BigInt(first + i) * 15_000_000_000n,
    );
    const rows = {
      timestampNanos,
      values: values.slice(first, past),
      rowVersions: Float64Array.from(
        timestampNanos,
        (nanos) => Number(versionAtNanos(nanos)) + 640,
      ),
      startNanos: null,
    };
    chunks.push(encodeTypedRows(inColumns(rows)));
  }
  return { values, chunks };
}
