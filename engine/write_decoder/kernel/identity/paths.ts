// Paths of Graphite as identities. A path is kept as it is, without names: its first byte is none of a label's, which begin with
// a line feed. It stands for the tags __g0__, __g1__, … of its nodes.

import { hasTags, hashOfTags, isLive, nextOf, recordOf, setNext, setWord, slotOfTags, word } from './identity';
import { LABEL_BYTES } from './labels';
import { LABELS, MISSES, NEW_SLOTS, NO_ROOM, NODE_NAME_BYTES, NODE_NAMES, PREVIOUS, TAGS_COUNT_MAX } from './memory';

const LABEL_KEY: u8 = 0x0a;
const DOT: u8 = 0x2e;
/** Of the longest name of a tag of a path, with the lengths of name and value. */
export const NODE_OVERHEAD: u32 = 13;

/** Before the first series. */
export function initPaths(): void {
  for (let node: u32 = 0; node < TAGS_COUNT_MAX; node++) {
    const name = NODE_NAMES + <usize>node * NODE_NAME_BYTES;
    let p = name;
    store<u8>(p, 0x5f);
    store<u8>(p, 0x5f, 1);
    store<u8>(p, 0x67, 2);
    p += 3;
    let digits: u32 = node < 10 ? 1 : node < 100 ? 10 : node < 1000 ? 100 : 1000;
    for (; digits > 0; digits /= 10) store<u8>(p++, <u8>(0x30 + ((node / digits) % 10)));
    store<u8>(p, 0x5f);
    store<u8>(p, 0x5f, 1);
    store<u8>(name, <u8>(p + 2 - name), NODE_NAME_BYTES - 1);
  }
}

/** Whether a record's identity is a path. */
@inline
export function isPath(tags: usize, n: usize): bool {
  return n > 0 && load<u8>(tags) != LABEL_KEY;
}

/** Lists the tags of a path at LABELS; answers their number. */
export function gatherPath(path: usize, n: usize): u32 {
  const end = path + n;
  let count: u32 = 0;
  let start = path;
  while (true) {
    let p = start;
    while (p < end && load<u8>(p) != DOT) p++;
    const name = NODE_NAMES + <usize>count * NODE_NAME_BYTES;
    const label = LABELS + <usize>count * LABEL_BYTES;
    store<u32>(label, <u32>name);
    store<u32>(label, <u32>load<u8>(name, NODE_NAME_BYTES - 1), 4);
    store<u32>(label, <u32>start, 8);
    store<u32>(label, <u32>(p - start), 12);
    count++;
    if (p == end) return count;
    start = p + 1;
  }
}

/** Slot of a path that is one: the one that followed the series before, when it is that, else by the table; or NO_ROOM. */
export function slotOfPath(path: usize, n: usize): i32 {
  const predicted = nextOf(recordOf(word(PREVIOUS)));
  if (predicted != 0 && isLive(predicted) && hasTags(recordOf(predicted), path, n)) {
    setWord(PREVIOUS, predicted);
    setWord(MISSES, 0);
    return <i32>predicted;
  }
  const slot = slotOfTags(path, n, hashOfTags(path, n), NEW_SLOTS);
  if (slot == 0) return NO_ROOM;
  setNext(recordOf(word(PREVIOUS)), slot);
  setWord(PREVIOUS, slot);
  return <i32>slot;
}
