/** What statsd says of the values of a timer in one window. */

/** Upper bounds, ascending, which are not in their bins; the last one may be infinity. */
export type Bins = readonly number[];

/**
 * @param values sorted here
 * @param weight how often they count
 * @param thresholds percents: of those above 0 the lower part of the values is told, of others the upper one
 */
export function timerStatistics(
  values: Float64Array,
  weight: number,
  seconds: number,
  thresholds: readonly number[],
  bins: Bins | null,
): (readonly [name: string, value: number])[] {
  const { length } = values;
  if (length === 0) {
    return [
      ['count', 0],
      ['count_ps', 0],
    ];
  }
  values.sort();
  const sums = new Float64Array(length + 1);
  const squares = new Float64Array(length + 1);
  for (const [place, value] of values.entries()) {
    sums[place + 1] = sums[place]! + value;
    squares[place + 1] = squares[place]! + value * value;
  }
  const all: (readonly [string, number])[] = [];
  for (const threshold of thresholds) {
    const share = Math.round((Math.abs(threshold) / 100) * length);
    const count = length === 1 ? 1 : share;
    if (count === 0) continue;
    const isLower = threshold > 0;
    const [from, past] = isLower ? [0, count] : [length - count, length];
    const sum = sums[past]! - sums[from]!;
    const name = String(threshold).replaceAll('.', '_').replace('-', 'top');
    all.push(
      [`count_${name}`, count],
      [`mean_${name}`, sum / count],
      isLower ? [`upper_${name}`, values[past - 1]!] : [`lower_${name}`, values[from]!],
      [`sum_${name}`, sum],
      [`sum_squares_${name}`, squares[past]! - squares[from]!],
    );
  }
  const sum = sums[length]!;
  const mean = sum / length;
  let differences = 0;
  for (const value of values) differences += (value - mean) ** 2;
  const middle = Math.floor(length / 2);
  all.push(
    ['std', Math.sqrt(differences / length)],
    ['upper', values[length - 1]!],
    ['lower', values[0]!],
    ['count', weight],
    ['count_ps', weight / seconds],
    ['sum', sum],
    ['sum_squares', squares[length]!],
    ['mean', mean],
    ['median', length % 2 === 1 ? values[middle]! : (values[middle - 1]! + values[middle]!) / 2],
  );
  if (bins !== null) all.push(...binned(values, bins));
  return all;
}

function* binned(
  values: Float64Array,
  bins: Bins,
): Iterable<readonly [name: string, value: number]> {
  let place = 0;
  for (const bound of bins) {
    const from = place;
    while (place < values.length && (values[place]! < bound || bound === Number.POSITIVE_INFINITY))
      place++;
    const name = bound === Number.POSITIVE_INFINITY ? 'inf' : String(bound).replaceAll('.', '_');
    yield [`histogram.bin_${name}`, place - from];
  }
}
