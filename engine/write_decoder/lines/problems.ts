/** What is wrong with a line of text, in words. */
import { shownText } from '#lib/errors.ts';
import {
  badFieldEnd,
  badLabelEnd,
  badMetricNameEnd,
  badPathEnd,
  emptyNode,
  metricNameTwice,
  noExemplar,
  noLabelEquals,
  noLabelName,
  noLabelValue,
  noMetricName,
  noPath,
  noTime,
  noValue,
  pathTooLong,
  valueIsNan,
  badLineEnd,
  badNumber,
  badTime,
  lineBytesMax,
  lineTextBytesMax,
  lineTooLong,
  noFieldEquals,
  noFieldKey,
  noFieldValue,
  noFields,
  noMeasurement,
  noQuote,
  noTagEquals,
  noTagKey,
  noTagValue,
  notUtf8,
  numberOutOfRange,
  tagTwice,
  tagsTooLong,
  timeOutOfRange,
  tooManyTags,
  tooMuchText,
} from './layout.ts';
import { tagsBytesMax, tagsCountMax } from '#lib/tags.ts';

/** A bad line of a text. */
export interface LineProblem {
  /** Where the line begins in the text. */
  readonly lineAt: number;
  /** Where it is bad. */
  readonly at: number;
  /** A number of layout.ts. */
  readonly reason: number;
}

const words: ReadonlyMap<number, string> = new Map([
  [noMeasurement, 'expected the name of a measurement'],
  [noTagKey, 'expected the key of a tag'],
  [noTagEquals, 'expected "=" behind the key of a tag'],
  [noTagValue, 'expected the value of a tag'],
  [noFields, 'expected a tag or a space and fields'],
  [noFieldKey, 'expected the key of a field'],
  [noFieldEquals, 'expected "=" behind the key of a field'],
  [noFieldValue, 'expected a number, true, false or a text in quotes'],
  [badNumber, 'not a number'],
  [numberOutOfRange, 'number out of range'],
  [noQuote, 'the text has no closing quote'],
  [badFieldEnd, 'expected a comma, a space or the end of the line'],
  [badTime, 'expected a time: a whole number'],
  [timeOutOfRange, 'time out of range'],
  [badLineEnd, 'expected the end of the line'],
  [tagTwice, 'two tags have one name, as it is written here'],
  [tooManyTags, `more than ${tagsCountMax} tags`],
  [tagsTooLong, `tags are longer than ${tagsBytesMax} bytes`],
  [tooMuchText, `tags of all fields, written out, are longer than ${lineTextBytesMax} bytes`],
  [notUtf8, 'not UTF-8'],
  [noPath, 'expected a path'],
  [emptyNode, 'a node of the path is empty'],
  [badPathEnd, 'expected a space, not a control character'],
  [noValue, 'expected a number'],
  [noTime, 'expected a time: seconds'],
  [valueIsNan, 'NaN is no value'],
  [
    pathTooLong,
    `path is longer than ${tagsBytesMax} bytes as tags, or has more than ${tagsCountMax} nodes`,
  ],
  [noMetricName, 'expected the name of a metric'],
  [badMetricNameEnd, 'expected "{" or a space behind the name of a metric'],
  [metricNameTwice, 'two names of a metric'],
  [noLabelName, 'expected the name of a label'],
  [noLabelEquals, 'expected "=" behind the name of a label'],
  [noLabelValue, 'expected a text in quotes'],
  [badLabelEnd, 'expected a comma or "}"'],
  [noExemplar, 'expected the labels of an exemplar'],
]);

/** Longest part of a line in a message. */
const shownBytesMax = 120;
const lineFeed = 0x0a;

/**
 * Line, place, reason and the line itself, or what stands at the place when it is long.
 * @param text in which the problem was found
 * @param line its number in the request, from 1
 * @param bytesMax of a line, where it is too long
 */
export function lineProblemText(
  { lineAt, at, reason }: LineProblem,
  text: Uint8Array,
  line: number,
  bytesMax: number = lineBytesMax,
): string {
  const why = reason === lineTooLong ? `line is longer than ${bytesMax} bytes` : words.get(reason)!;
  const place = `line ${line}, byte ${at - lineAt + 1}`;
  const feed = text.indexOf(lineFeed, lineAt);
  const end = feed < 0 ? text.length : feed;
  const from = end - lineAt <= shownBytesMax ? lineAt : Math.min(at, end);
  const shown = Buffer.from(text.subarray(from, Math.min(end, from + shownBytesMax))).toString();
  const cut = end > from + shownBytesMax ? '…' : '';
  return `${place}: ${why}: ${JSON.stringify(shownText(shown) + cut)}`;
}

/** Line feeds from one place to another. */
export function lineFeedsIn(text: Uint8Array, from: number, end: number): number {
  let count = 0;
  let at = text.indexOf(lineFeed, from);
  for (; at >= 0 && at < end; at = text.indexOf(lineFeed, at + 1)) count += 1;
  return count;
}
