/**
 * Order statistics without a full sort. NaN counts as the smallest value, as quantiles of PromQL
 * have it.
 */

/**
 * Reorders scratch[0, count), which holds no NaN, until scratch[rank] is the value of that rank.
 */
export function selectRank(scratch: Float64Array, count: number, rank: number): number {
  let low = 0;
  let high = count - 1;
  while (low < high) {
    const pivot = scratch[(low + high) >> 1]!;
    let i = low;
    let j = high;
    while (i <= j) {
      while (scratch[i]! < pivot) i++;
      while (pivot < scratch[j]!) j--;
      if (i <= j) {
        const swapped = scratch[i]!;
        scratch[i] = scratch[j]!;
        scratch[j] = swapped;
        i++;
        j--;
      }
    }
    if (rank <= j) high = j;
    else if (rank >= i) low = i;
    else break;
  }
  return scratch[rank]!;
}

/**
 * The q-quantile of scratch[0, count) by linear interpolation between ranks; destroys the order.
 * @returns NaN without values or with q NaN, -Infinity for q < 0, Infinity for q > 1
 */
export function quantileOf(q: number, scratch: Float64Array, count: number): number {
  if (count === 0 || Number.isNaN(q)) return NaN;
  if (q < 0) return -Infinity;
  if (q > 1) return Infinity;
  let nanCount = 0;
  for (let i = 0; i < count; i++) {
    const value = scratch[i]!;
    if (value !== value) {
      scratch[i] = scratch[nanCount]!;
      scratch[nanCount++] = NaN;
    }
  }
  const rank = q * (count - 1);
  const lower = Math.floor(rank);
  const upper = Math.min(count - 1, lower + 1);
  const weight = rank - lower;
  if (nanCount > 0) scratch.copyWithin(0, nanCount, count);
  const valueCount = count - nanCount;
  const lowerValue = lower < nanCount ? NaN : selectRank(scratch, valueCount, lower - nanCount);
  let upperValue = lowerValue;
  if (upper !== lower) {
    if (upper < nanCount) upperValue = NaN;
    else if (lower < nanCount) upperValue = selectRank(scratch, valueCount, upper - nanCount);
    else {
      // After the selection everything after the lower rank is at least as large: its least is
      // next.
      upperValue = Infinity;
      for (let i = lower - nanCount + 1; i < valueCount; i++) {
        if (scratch[i]! < upperValue) upperValue = scratch[i]!;
      }
    }
  }
  return lowerValue * (1 - weight) + upperValue * weight;
}
