/** rate, increase, delta and their instant forms. */
import { absentBits } from './row.ts';
import type { Evaluate } from './windows.ts';

/** An edge of the window farther away than this many mean intervals is not extrapolated to. */
const extrapolationIntervals = 1.1;

/**
 * The change over the window, extrapolated to its edges where the first or last row is near enough.
 * @param isCounter a fall is a reset to 0, and a counter is never extrapolated below 0
 * @param isRate by seconds of the range
 */
export function extrapolatedRate(isCounter: boolean, isRate: boolean): Evaluate {
  return (columns, request, target, at) => {
    const { times, values, starts, ends } = columns;
    const rangeSeconds = request.rangeMillis / 1000;
    for (let step = 0; step < request.stepCount; step++) {
      const start = starts[step]!;
      const last = ends[step]! - 1;
      const firstTime = times[start]!;
      const lastTime = times[last]!;
      if (last <= start || lastTime === firstTime) {
        target.bits[at + step] = absentBits;
        continue;
      }
      const reference = request.referenceStartMillis + step * request.referenceStepMillis;
      const firstValue = values[start]!;
      let change = values[last]! - firstValue;
      if (isCounter) {
        let previous = firstValue;
        for (let i = start + 1; i <= last; i++) {
          const value = values[i]!;
          if (value < previous) change += previous;
          previous = value;
        }
      }
      const sampledSeconds = (lastTime - firstTime) / 1000;
      const meanInterval = sampledSeconds / (last - start);
      const threshold = meanInterval * extrapolationIntervals;
      let toStart = (firstTime - (reference - request.rangeMillis)) / 1000;
      let toEnd = (reference - lastTime) / 1000;
      if (toStart >= threshold) toStart = meanInterval / 2;
      if (isCounter && change > 0 && firstValue >= 0) {
        const toZero = sampledSeconds * (firstValue / change);
        if (toZero < toStart) toStart = toZero;
      }
      if (toEnd >= threshold) toEnd = meanInterval / 2;
      let factor = (sampledSeconds + toStart + toEnd) / sampledSeconds;
      if (isRate) factor /= rangeSeconds;
      target.values[at + step] = change * factor;
    }
  };
}

/** The change between the last two rows; as a rate (of a counter) or as it is (of a gauge). */
export function instantChange(isRate: boolean): Evaluate {
  return (columns, request, target, at) => {
    const { times, values, starts, ends } = columns;
    for (let step = 0; step < request.stepCount; step++) {
      const last = ends[step]! - 1;
      const seconds = (times[last]! - times[last - 1]!) / 1000;
      if (last <= starts[step]! || seconds === 0) {
        target.bits[at + step] = absentBits;
        continue;
      }
      const value = values[last]!;
      const previous = values[last - 1]!;
      if (!isRate) target.values[at + step] = value - previous;
      else target.values[at + step] = (value < previous ? value : value - previous) / seconds;
    }
  };
}
