import assert from 'node:assert/strict';
import { test } from 'node:test';
import { functionRows, functions } from './table.ts';

/** Names of graphite-web 1.1.10, and those that M3 has besides. */
const names =
  `absolute add aggregate aggregateLine aggregateSeriesLists aggregateWithWildcards alias aliasByMetric
aliasByNode aliasByTags aliasQuery aliasSub alpha applyByNode areaBetween asPercent averageAbove averageBelow
averageOutsidePercentile averageSeries averageSeriesWithWildcards avg cactiStyle changed color compressPeriodicGaps
consolidateBy constantLine countSeries cumulative currentAbove currentBelow dashed delay derivative diffSeries
diffSeriesLists divideSeries divideSeriesLists drawAsInfinite events exclude exp exponentialMovingAverage
fallbackSeries filterSeries grep group groupByNode groupByNodes groupByTags highest highestAverage highestCurrent
highestMax hitcount holtWintersAberration holtWintersConfidenceArea holtWintersConfidenceBands holtWintersForecast
identity integral integralByInterval interpolate invert isNonNull keepLastValue legendValue limit lineWidth
linearRegression log logit lower lowest lowestAverage lowestCurrent map mapSeries maxSeries maximumAbove maximumBelow
minMax minSeries minimumAbove minimumBelow mostDeviant movingAverage movingMax movingMedian movingMin movingSum
movingWindow multiplySeries multiplySeriesLists multiplySeriesWithWildcards nPercentile nonNegativeDerivative offset
offsetToZero pct perSecond percentileOfSeries pow powSeries randomWalk randomWalkFunction rangeOfSeries reduce
reduceSeries removeAbovePercentile removeAboveValue removeBelowPercentile removeBelowValue removeBetweenPercentile
removeEmptySeries round scale scaleToSeconds secondYAxis seriesByTag setXFilesFactor sigmoid sin sinFunction
smartSummarize sortBy sortByMaxima sortByMinima sortByName sortByTotal squareRoot stacked stddevSeries stdev substr
sum sumSeries sumSeriesLists sumSeriesWithWildcards summarize threshold time timeFunction timeShift timeSlice
timeStack transformNull unique upper useSeriesAbove verticalLine weightedAverage xFilesFactor
abs logarithm max min sustainedAbove sustainedBelow`.split(/\s+/);

test('the table has every function of graphite-web, and those of M3', () => {
  assert.deepEqual(
    names.filter((name) => !functions.has(name)),
    [],
  );
});

test('each name stands for one row, and each row can be shown', () => {
  const all = functionRows.flatMap((row) => [row.name, ...row.aliases]);
  assert.equal(new Set(all).size, all.length);
  for (const { name, description, parameters } of functionRows) {
    assert.match(description, /^[A-Z0-9].{5,110}[^.]$/, name);
    assert.equal(new Set(parameters.map((parameter) => parameter.name)).size, parameters.length);
    for (const [index, parameter] of parameters.entries()) {
      if (parameter.isMultiple) assert.equal(index, parameters.length - 1, name);
      if (parameter.isRequired) assert.equal(parameter.default, null, name);
    }
  }
});
