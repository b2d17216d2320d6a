// Where the write decoder kernel keeps what, by address; each region is followed by slack or by
// another region.
//
//     state, hash keys | labels of one series, twice | staged series | canonical tags | tags of the staged series | an ID
//     body as it came | body decompressed | rows: slots, generations, timestamps, values | new slots | symbols
//     histograms | start times | exemplars | metadata | identity (identity.ts)

import { STATE_END, setWord, word } from './identity';

export const MALFORMED: i32 = -10;
export const TOO_MANY_ROWS: i32 = -11;
export const NO_ROOM: i32 = -12;
export const TOO_MANY_SYMBOLS: i32 = -13;
export const TOO_MUCH_TEXT: i32 = -14;
/** More histograms, or more bytes of their values, than there is room for. */
export const TOO_MANY_HISTOGRAMS: i32 = -15;
/** Internal: a label follows the samples, so the labels must be gathered from the whole series. */
export const LATE_LABEL: i32 = -100;

export const OVERSIZE_SLOT: u32 = 0;
export const NAMELESS_SLOT: u32 = 1;
export const UNRESOLVED_SLOT: u32 = 2;
export const TAGS_COUNT_MAX: u32 = 1024;
export const TAGS_BYTES_MAX: u64 = 65_535;
export const ROWS_MAX: u32 = 1 << 20;
export const BODY_BYTES_MAX: usize = 38 << 20;
export const RAW_BYTES_MAX: usize = 32 << 20;

export const LABELS: usize = 0x20000;
export const LABELS_SORTED: usize = LABELS + 0x8000;
export const STAGED: usize = 0x30000;
/** Canonical tags on their way to and from the host. */
export const CANONICAL: usize = 0x40000;
/** TAGS_BYTES_MAX and what wide stores write after it. */
export const CANONICAL_BYTES_MAX: usize = 0x10000 + 64;
/**
 * What the host writes before `init`: the name of the label of types, those of the types 1 to 7, the name of the label of
 * units. In the last byte of each is its length.
 */
export const TYPE_TEXTS: usize = 0x58000;
export const TYPE_TEXT_BYTES: usize = 16;
/** What the host writes before `init`, too: 128 bits of each power of five that decimal texts need (kernel/lines/decimal.ts). */
export const POWERS_OF_FIVE: usize = 0x59000;
/** Names of the tags of paths, `__g0__` and so on: sixteen bytes each, the length in the last one. */
export const NODE_NAMES: usize = 0x5c000;
export const NODE_NAME_BYTES: usize = 16;
/** The ID of a series that is judged. */
export const ID_SCRATCH: usize = 0xa0000;
/** Tags of the staged series in normal form. */
export const NORMAL: usize = 0x60000;
export const NORMAL_END: usize = 0xa0000;
/**
 * TAGS_BYTES_MAX and what lengths and keys of TAGS_COUNT_MAX tags take beyond their four bytes in
 * the canonical layout.
 */
export const NORMAL_BYTES_MAX: usize = 0x13000;
export const BODY: usize = 0xc0000;
export const RAW: usize = BODY + BODY_BYTES_MAX + 0x10000;
/** Lines of text stand at `BODY`, so that `RAW` is free for what they need: texts that are not in them as they are meant, */
export const LINE_TEXTS: usize = RAW;
/** the fields of one line, */
export const LINE_FIELDS: usize = RAW + (4 << 20);
/** lines that are bad, */
export const LINE_PROBLEMS: usize = RAW + (20 << 20);
/** and numbers that the host has to read. */
export const LINE_NUMBERS: usize = RAW + (21 << 20);
export const ROW_SLOTS: usize = RAW + RAW_BYTES_MAX + 0x20000;
export const ROW_GENERATIONS: usize = ROW_SLOTS + ROWS_MAX * 4;
export const ROW_TIMESTAMPS: usize = ROW_GENERATIONS + ROWS_MAX * 4;
export const ROW_VALUES: usize = ROW_TIMESTAMPS + ROWS_MAX * 8;
export const NEW_SLOTS: usize = ROW_VALUES + ROWS_MAX * 8;
/** Texts of a version 2 body: address u32 | length u32 */
export const SYMBOLS: usize = NEW_SLOTS + ROWS_MAX * 4 + 0x10000;
export const SYMBOLS_MAX: u32 = 1 << 20;
/** Texts of all series of a version 2 body, written out. */
export const LABEL_TEXT_BYTES_MAX: u32 = 128 << 20;
/** Native histograms of a body: columns, and their values as typed values, one after the other. */
export const HISTOGRAMS_MAX: u32 = 1 << 18;
export const HISTOGRAM_SLOTS: usize = SYMBOLS + SYMBOLS_MAX * 8 + 0x10000;
export const HISTOGRAM_GENERATIONS: usize = HISTOGRAM_SLOTS + HISTOGRAMS_MAX * 4;
export const HISTOGRAM_TIMESTAMPS: usize = HISTOGRAM_GENERATIONS + HISTOGRAMS_MAX * 4;
export const HISTOGRAM_STARTS: usize = HISTOGRAM_TIMESTAMPS + HISTOGRAMS_MAX * 8;
/** Where each one's value ends among the values. */
export const HISTOGRAM_ENDS: usize = HISTOGRAM_STARTS + HISTOGRAMS_MAX * 8;
/** Where a bad one stands in `RAW`: offset u32 | length u32; length 0 for the good ones. */
export const HISTOGRAM_SOURCES: usize = HISTOGRAM_ENDS + HISTOGRAMS_MAX * 4;
/** Counts, places and spans of the one that is read. */
export const HISTOGRAM_SCRATCH: usize = HISTOGRAM_SOURCES + HISTOGRAMS_MAX * 8;
export const HISTOGRAM_SCRATCH_BYTES: usize = 8 << 20;
export const HISTOGRAM_VALUES: usize = HISTOGRAM_SCRATCH + HISTOGRAM_SCRATCH_BYTES;
export const HISTOGRAM_VALUE_BYTES_MAX: u32 = 64 << 20;
/** Start times of rows; all zero between bodies. */
export const ROW_STARTS: usize = HISTOGRAM_VALUES + HISTOGRAM_VALUE_BYTES_MAX + 0x20000;
/** Exemplars of a body: columns, and their values as typed values, one after the other. */
export const EXEMPLARS_MAX: u32 = 1 << 13;
export const EXEMPLAR_BYTES_MAX: u32 = 4 << 20;
/** Characters of all labels of one, as Prometheus has it. */
export const EXEMPLAR_RUNES_MAX: u32 = 128;
/** As many as have a character in each of their texts. */
export const EXEMPLAR_LABELS_MAX: u32 = 64;
/** More than a value takes: kind, layout, number, and 128 texts with four bytes a character. */
export const EXEMPLAR_VALUE_BYTES_MAX: usize = 2048;
export const EXEMPLAR_SLOTS: usize = ROW_STARTS + ROWS_MAX * 8 + 0x10000;
export const EXEMPLAR_GENERATIONS: usize = EXEMPLAR_SLOTS + EXEMPLARS_MAX * 4;
/** Unix nanoseconds: the milliseconds that were sent, and a hash of the value below them. */
export const EXEMPLAR_TIMES: usize = EXEMPLAR_GENERATIONS + EXEMPLARS_MAX * 4;
/** Where each one's value ends among the values; a bad one has none. */
export const EXEMPLAR_ENDS: usize = EXEMPLAR_TIMES + EXEMPLARS_MAX * 8;
/** Of each why it is bad, a byte; 0 when it is not. */
export const EXEMPLAR_PROBLEMS: usize = EXEMPLAR_ENDS + EXEMPLARS_MAX * 4;
export const EXEMPLAR_VALUES: usize = EXEMPLAR_PROBLEMS + EXEMPLARS_MAX;
export const METADATA_MAX: u32 = 1 << 16;
export const METADATA_ENTRY_BYTES: usize = 48;
export const METADATA_ENTRIES: usize = EXEMPLAR_VALUES + EXEMPLAR_BYTES_MAX + 0x10000;
export const IDENTITY: usize = METADATA_ENTRIES + <usize>METADATA_MAX * METADATA_ENTRY_BYTES + 0x10000;

// Words of the state after those of the identity.
export const PREVIOUS: usize = STATE_END;
export const MISSES: usize = STATE_END + 4;
export const UNPREDICTED: usize = STATE_END + 8;
export const HISTOGRAMS: usize = STATE_END + 12;
export const BODY_HIGH: usize = STATE_END + 16;
export const RAW_HIGH: usize = STATE_END + 20;
export const ROWS_HIGH: usize = STATE_END + 24;
export const SYMBOLS_HIGH: usize = STATE_END + 28;
export const LABEL_TEXT_BYTES: usize = STATE_END + 32;
/** 1 when a row of the body is of OVERSIZE_SLOT, NAMELESS_SLOT or UNRESOLVED_SLOT. */
export const OVERSIZE_ROWS: usize = STATE_END + 36;

/** Bytes of the values of histograms. */
export const HISTOGRAM_BYTES: usize = STATE_END + 40;
export const HISTOGRAM_BYTES_HIGH: usize = STATE_END + 44;
export const HISTOGRAMS_HIGH: usize = STATE_END + 48;

/** Rows of the body up to the last one that has a start time. */
export const STARTS: usize = STATE_END + 52;
export const STARTS_HIGH: usize = STATE_END + 56;

/** Texts in the table of a version 2 body. */
export const SYMBOL_COUNT: usize = STATE_END + 60;

export const EXEMPLARS: usize = STATE_END + 64;
export const EXEMPLAR_BYTES: usize = STATE_END + 68;
/** For which there was no room. */
export const EXEMPLARS_LEFT_OUT: usize = STATE_END + 72;
export const EXEMPLARS_HIGH: usize = STATE_END + 76;
export const EXEMPLAR_BYTES_HIGH: usize = STATE_END + 80;

export const METADATA: usize = STATE_END + 84;
export const METADATA_LEFT_OUT: usize = STATE_END + 88;
export const METADATA_HIGH: usize = STATE_END + 92;

/** Slot of the first series of the body that has no metric name, 0 for none. */
export const FIRST_NAMELESS: usize = STATE_END + 96;

/** Bad lines of the text, and those that are listed. */
export const LINE_PROBLEM_COUNT: usize = STATE_END + 100;
/** Rows whose values the host has to read. */
export const LINE_NUMBER_COUNT: usize = STATE_END + 104;
/** Bytes of the tags of series that the body made. */
export const NEW_TAG_BYTES: usize = STATE_END + 108;
/** Rows of the text so far. */
export const LINE_ROWS: usize = STATE_END + 112;
export const LINE_FIELDS_HIGH: usize = STATE_END + 116;
/** 1 when the text ends, for the kernel, before a line for whose series there is no room. */
export const LINES_CROWDED: usize = STATE_END + 120;

export function raiseWord(offset: usize, value: u32): void {
  if (value > word(offset)) setWord(offset, value);
}
