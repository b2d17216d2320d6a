/** What a run over resolutions tells in the end. */
import { sourceNames } from './evaluator.ts';
import type { FillOutcome } from './fill_part.ts';
import type { QueriesOutcome } from './queries_part.ts';

export function linesOfQueries(outcome: QueriesOutcome): string[] {
  const { comparison } = outcome;
  const row = (cells: readonly (string | number)[]): string =>
    cells
      .map((cell, i) => (i === 0 ? String(cell).padEnd(24) : String(cell).padStart(12)))
      .join('');
  const total = { compared: 0, different: 0 };
  for (const counts of comparison.counts.values()) {
    for (const { compared, different } of Object.values(counts)) {
      total.compared += compared;
      total.different += different;
    }
  }
  return [
    `${outcome.rows} rows of ${outcome.series} series, ${outcome.windows} windows (${outcome.windowFailures} failures), ${comparison.requests} requests, ${outcome.seconds.toFixed(0)} s`,
    row(['values compared of', ...sourceNames, 'different']),
    ...[...comparison.counts].map(([name, counts]) => {
      const different = Object.values(counts).reduce((sum, each) => sum + each.different, 0);
      return row([name, ...sourceNames.map((source) => counts[source].compared), different]);
    }),
    row(['all', '', '', total.compared, total.different]),
    ...[...comparison.names].map(([name, { compared, different }]) =>
      row([`names of ${name}`, '', '', compared, different]),
    ),
    `notes of answers compared: ${comparison.annotations}; steps at which the source changed meanwhile: ${comparison.eitherCount}`,
    `differences: ${comparison.differenceCount}`,
    ...comparison.differences.map((difference) => `  ${JSON.stringify(difference)}`),
  ];
}

export function jsonOfQueries(outcome: QueriesOutcome): object {
  const { comparison, ...rest } = outcome;
  return {
    ...rest,
    seconds: Math.round(rest.seconds),
    requests: comparison.requests,
    values: Object.fromEntries(comparison.counts),
    names: Object.fromEntries(comparison.names),
    notes: comparison.annotations,
    either: comparison.eitherCount,
    differences: comparison.differenceCount,
    examples: comparison.differences,
  };
}

export function linesOfFill(fill: FillOutcome): string[] {
  return [
    `fill: ${fill.samples} samples, ${fill.windows} windows (${fill.windowFailures} failures) in ${fill.seconds.toFixed(1)} s: ${fill.samplesPerSecond} samples a second, ${fill.cpuSecondsPerMillion.toFixed(3)} CPU seconds a million samples, memory ${fill.memoryBeforeMebibytes} MiB before, ${fill.memoryMaxMebibytes} MiB at most, ${fill.bytesPerWindow.toFixed(1)} bytes a window, ${fill.bytesPerSample.toFixed(2)} bytes a sample`,
  ];
}
