/** The scripts of the suites are those of Prometheus 3.14. Where 3.15 answers something else it counts. */
import assert from 'node:assert/strict';

/** One value of a series that an evaluation expects. */
interface Change {
  readonly file: string;
  readonly series: string;
  readonly was: string;
  readonly is: string;
}

/** A start time after its own sample is none since then, and the change from it to the next one no reset. */
const spuriousResets: readonly Omit<Change, 'file'>[] = [
  { series: '{type="st_after_t"}', was: '6', is: '5' },
  { series: '{type="st_after_t_extrapolate_both"}', was: '6.333333333333333', is: '5' },
  { series: '{type="st_after_t_extrapolate_both_limit_range"}', was: '6', is: '2' },
];

const changes: readonly Change[] = spuriousResets.map((change) => ({
  file: 'promql/experimental/start_timestamps.test',
  ...change,
}));

/** The script with what 3.15 expects. @throws {AssertionError} when it has none of the two */
export function asOf315(file: string, script: string): string {
  let lines = script.split('\n');
  for (const { series, was, is } of changes.filter((change) => change.file === file)) {
    const expects = (line: string, value: string): boolean => {
      const words = line.trim().split(/\s+/);
      return words.length === 2 && words[0] === series && words[1] === value;
    };
    assert.ok(
      lines.some((line) => expects(line, was) || expects(line, is)),
      `${file} expects nothing of ${series}`,
    );
    lines = lines.map((line) => (expects(line, was) ? `${series} ${is}` : line));
  }
  return lines.join('\n');
}
