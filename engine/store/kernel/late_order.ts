// The late rows of a batch, one series after the other by ascending time. What the memory holds for a row is found by what was
// looked at for the row before (held.ts), and what is merged is one run of rows instead of thousands.

/**
 * Sorts numbers of rows (u16, ascending) by slot (u32 column), then time (i64 column); rows of one time stay in their order.
 * @returns where they are, `rows` or `other`
 */
export function sortLate(
  rows: usize,
  other: usize,
  count: u32,
  slots: usize,
  times: usize,
): usize {
  if (isSorted(rows, count, slots, times)) return rows;
  for (let width: u32 = 1; width < count; width <<= 1) {
    for (let from: u32 = 0; from < count; from += width << 1) {
      const middle = min(from + width, count);
      mergeRuns(rows, other, from, middle, min(middle + width, count), slots, times);
    }
    const sorted = other;
    other = rows;
    rows = sorted;
  }
  return rows;
}

@inline
function rowOf(rows: usize, place: u32): usize {
  return <usize>load<u16>(rows + (<usize>place << 1));
}

/** Whether the one does not come behind the other. */
@inline
function isOrdered(a: usize, b: usize, slots: usize, times: usize): bool {
  const aSlot = load<u32>(slots + (a << 2));
  const bSlot = load<u32>(slots + (b << 2));
  if (aSlot != bSlot) return aSlot < bSlot;
  return load<i64>(times + (a << 3)) <= load<i64>(times + (b << 3));
}

function isSorted(rows: usize, count: u32, slots: usize, times: usize): bool {
  for (let i: u32 = 1; i < count; i++) {
    if (!isOrdered(rowOf(rows, i - 1), rowOf(rows, i), slots, times)) return false;
  }
  return true;
}

function mergeRuns(
  rows: usize,
  other: usize,
  from: u32,
  middle: u32,
  end: u32,
  slots: usize,
  times: usize,
): void {
  let a = from;
  let b = middle;
  for (let out = from; out < end; out++) {
    const takesFirst =
      a < middle && (b == end || isOrdered(rowOf(rows, a), rowOf(rows, b), slots, times));
    store<u16>(other + (<usize>out << 1), <u16>rowOf(rows, takesFirst ? a++ : b++));
  }
}
