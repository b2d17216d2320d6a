// Numbers of lines of text that both the kernel and TypeScript need: AssemblyScript compiles this file too, so it holds plain
// literals and nothing else.

export const formatInflux = 0;
export const formatCarbon = 1;
/** Carbon, whose paths are cleaned up first. */
export const formatCarbonCleanedUp = 2;
/** Prometheus' text. */
export const formatPrometheus = 3;
export const formatOpenMetrics = 4;

// Why a line is bad; problems.ts has the words.
export const noMeasurement = 1;
export const noTagKey = 2;
export const noTagEquals = 3;
export const noTagValue = 4;
export const noFields = 5;
export const noFieldKey = 6;
export const noFieldEquals = 7;
export const noFieldValue = 8;
export const badNumber = 9;
export const numberOutOfRange = 10;
export const noQuote = 11;
export const badFieldEnd = 12;
export const badTime = 13;
export const timeOutOfRange = 14;
export const badLineEnd = 15;
export const tagTwice = 16;
export const tooManyTags = 17;
export const tagsTooLong = 18;
export const tooMuchText = 19;
export const lineTooLong = 20;
export const notUtf8 = 21;
export const noPath = 22;
export const emptyNode = 23;
export const noValue = 24;
export const noTime = 25;
export const valueIsNan = 26;
export const pathTooLong = 27;
export const badPathEnd = 28;
export const noMetricName = 29;
export const badMetricNameEnd = 30;
export const metricNameTwice = 31;
export const noLabelName = 32;
export const noLabelEquals = 33;
export const noLabelValue = 34;
export const badLabelEnd = 35;
export const noExemplar = 36;

/** Longest line, and text that is read at once. */
export const lineBytesMax = 1048576;
/** Tags of all rows of one line, written out. */
export const lineTextBytesMax = 4194304;
/** Tags of new series after which no further line is read: storage nodes name them in one go. */
export const newTagBytesAtOnce = 1048576;
/** Bad lines of a text that are listed. */
export const lineProblemsMax = 64;
/** Numbers that the host reads. */
export const hostNumbersMax = 4096;
