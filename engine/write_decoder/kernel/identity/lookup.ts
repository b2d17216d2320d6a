// The slot of the series whose labels were gathered: the one that followed the series before last time, if it is that, else by
// the table.

import { MISSES, NEW_SLOTS, NORMAL, NO_ROOM, OVERSIZE_SLOT, PREVIOUS, UNPREDICTED } from './memory';
import {
  hasTags,
  hashOfTags,
  isLive,
  markUsed,
  nextOf,
  recordOf,
  setNext,
  setWord,
  slotOfTags,
  tagsLengthOf,
  tagsOf,
  word,
} from './identity';
import { areGathered, normalTags } from './labels';

/**
 * Failed predictions in a row after which the next ones are left out, and how many series that
 * lasts.
 */
const MISSES_MAX: u32 = 32;
const UNPREDICTED_SERIES: u32 = 1024;

/** The slot that followed the one before; 0 for none. */
@inline
export function predictedSlot(): u32 {
  const predicted = nextOf(recordOf(word(PREVIOUS)));
  return predicted != 0 && isLive(predicted) ? predicted : 0;
}

/** Notes that the prediction was right. */
@inline
export function confirm(predicted: u32, record: usize): void {
  markUsed(record);
  setWord(PREVIOUS, predicted);
  setWord(MISSES, 0);
}

/** Slot of the gathered labels, compared in place with the predicted one; or a negative problem. */
export function slotOfLabels(count: u32): i32 {
  const predicted = predictedSlot();
  const record = recordOf(predicted);
  if (predicted != 0 && areGathered(tagsOf(record), tagsLengthOf(record), count)) {
    confirm(predicted, record);
    return <i32>predicted;
  }
  return slotOfGathered(count, predicted);
}

/** Slot of the gathered labels, which is the next prediction's begin; or NO_ROOM. */
export function slotOfGathered(count: u32, predicted: u32): i32 {
  const length = normalTags(count, NORMAL);
  if (length < 0) return <i32>OVERSIZE_SLOT;
  const slot = slotAfter(predicted, <usize>length);
  if (slot == 0) return NO_ROOM;
  // By slot, for an insertion may have moved the record.
  setNext(recordOf(word(PREVIOUS)), slot);
  setWord(PREVIOUS, slot);
  return <i32>slot;
}

/** Slot of the tags at NORMAL: the predicted one when it fits (0 = none), else by the table. */
function slotAfter(predicted: u32, length: usize): u32 {
  if (predicted != 0) {
    if (hasTags(recordOf(predicted), NORMAL, length)) {
      setWord(MISSES, 0);
      return predicted;
    }
    const misses = word(MISSES) + 1;
    setWord(MISSES, misses);
    if (misses > MISSES_MAX) {
      setWord(UNPREDICTED, UNPREDICTED_SERIES);
      setWord(MISSES, 0);
    }
  }
  return slotOfTags(NORMAL, length, hashOfTags(NORMAL, length), NEW_SLOTS);
}
