/** What M3QL has as Graphite has it, row by row or series by series. */
import { reused } from '../calls/functions.ts';
import { may, needs, type ScriptFunction } from '../calls/parameters.ts';

export const reusedFunctions: readonly ScriptFunction[] = [
  reused('abs absolute', 'absolute'),
  reused('changed', 'changed'),
  reused('derivative', 'derivative'),
  reused('fallbackSeries', 'fallbackSeries', [needs('replacement:fallback', 'series')]),
  reused('head', 'highest', [may('limit:n', 'count'), may('func', 'aggregation')]),
  reused('integral', 'integral'),
  reused('isNonNull', 'isNonNull'),
  reused('keepLastValue', 'keepLastValue', [may('limit', 'limit')]),
  reused('logarithm', 'log', [may('base', 'count')]),
  reused('moving', 'movingWindow', [
    needs('interval:windowSize', 'window'),
    may('func', 'aggregation'),
    may('xFilesFactor', 'number'),
  ]),
  reused('nonNegativeDerivative', 'nonNegativeDerivative', [may('maxValue', 'number')]),
  reused('nPercentile', 'nPercentile', [needs('percentile:n', 'percentile')]),
  reused('offset', 'offset', [needs('amount:factor', 'number')]),
  reused('perSecond', 'perSecond', [may('maxValue', 'number')]),
  reused('removeAbovePercentile', 'removeAbovePercentile', [needs('percentile:n', 'percentile')]),
  reused('removeAboveValue', 'removeAboveValue', [needs('value:n', 'number')]),
  reused('removeBelowPercentile', 'removeBelowPercentile', [needs('percentile:n', 'percentile')]),
  reused('removeBelowValue', 'removeBelowValue', [needs('value:n', 'number')]),
  reused('removeEmpty', 'removeEmptySeries', [may('xFilesFactor', 'number')]),
  reused('scale', 'scale', [needs('factor', 'number')]),
  reused('scaleToSeconds', 'scaleToSeconds', [needs('seconds', 'number')]),
  reused('sort sortSeries', 'sortBy', [may('func', 'aggregation'), may('reverse', 'boolean')]),
  reused('sqrt squareRoot', 'squareRoot'),
  reused('stdev', 'stdev', [needs('points', 'count'), may('windowTolerance', 'number')]),
  reused('summarize', 'summarize', [
    needs('interval:intervalString', 'steps'),
    may('func', 'aggregation'),
    may('alignToFrom', 'boolean'),
  ]),
  reused('sustainedAbove', 'sustainedAbove', [
    needs('threshold', 'number'),
    needs('interval:intervalString', 'interval'),
  ]),
  reused('sustainedBelow', 'sustainedBelow', [
    needs('threshold', 'number'),
    needs('interval:intervalString', 'interval'),
  ]),
  reused('tail', 'lowest', [may('limit:n', 'count'), may('func', 'aggregation')]),
  reused('transformNull', 'transformNull', [may('value:default', 'number')]),
];
