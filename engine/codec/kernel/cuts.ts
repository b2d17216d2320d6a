// Rows that deletions cover, of those that keep their versions. Deletions lie one after the other, three i64 each: of
// rows in [start, end) those with a version up to the third go.
import { Desk, hasLags } from './merge';
import { versionAt } from './rows';

const cutBytes: usize = 24;

/** @param lag from the row's time to its version */
export function isCut(cuts: usize, count: u32, nanos: i64, lag: i64): bool {
  const version = versionAt(nanos) + lag;
  const end = cuts + <usize>count * cutBytes;
  for (let cut = cuts; cut < end; cut += cutBytes) {
    if (nanos < load<i64>(cut) || nanos >= load<i64>(cut, 8)) continue;
    if (version <= load<i64>(cut, 16)) return true;
  }
  return false;
}

/** Takes rows that are deleted off a finished desk whose lags are filled; gives how many. */
export function dropCutRows(desk: Desk, cuts: usize, count: u32): u32 {
  const hasOwnLags = hasLags(desk);
  const rowEnd = desk.rowCount;
  let to: usize = 0;
  for (let from: usize = 0; from < <usize>rowEnd << 3; from += 8) {
    const nanos = load<i64>(desk.times + from);
    const lag = hasOwnLags ? load<i64>(desk.lags + from) : desk.lagHighest;
    if (isCut(cuts, count, nanos, lag)) continue;
    if (to != from) {
      store<i64>(desk.times + to, nanos);
      store<u64>(desk.values + to, load<u64>(desk.values + from));
      store<i64>(desk.lags + to, lag);
      if (desk.starts != 0) store<i64>(desk.starts + to, load<i64>(desk.starts + from));
    }
    to += 8;
  }
  desk.rowCount = <u32>(to >> 3);
  return rowEnd - desk.rowCount;
}
