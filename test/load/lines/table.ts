/** Medians of what was measured, and what they are of those of VictoriaMetrics in the same run. */
import { medianOf } from '../median.ts';
import type { FormatName } from './formats.ts';
import type { SystemName } from './systems.ts';

export interface Measured {
  readonly format: FormatName;
  readonly system: SystemName;
  /** From the first byte until all samples are read by who asks; of ours, they are in the commit log then. */
  readonly cpuSecondsPerMillion: number;
  /** From the first byte until all samples were taken. */
  readonly samplesPerSecond: number;
  /** Since the process started, without queries. */
  readonly peakMebibytes: number;
}

const columns = [
  { title: 'CPU seconds a million samples', of: 'cpuSecondsPerMillion', digits: 2 },
  { title: 'samples a second', of: 'samplesPerSecond', digits: 0 },
  { title: 'peak MiB', of: 'peakMebibytes', digits: 0 },
] as const;

/** As Markdown has tables; a ratio stands behind a figure of ours where VictoriaMetrics was measured. */
export function tableOf(results: readonly Measured[]): string {
  const median = (
    format: FormatName,
    system: SystemName,
    of: (typeof columns)[number]['of'],
  ): number | undefined => {
    const all = results.filter((each) => each.format === format && each.system === system);
    return all.length === 0 ? undefined : medianOf(all.map((each) => each[of]));
  };
  const rows = new Map(
    results.map(({ format, system }) => {
      const cells = columns.map(({ of, digits }) => {
        const value = median(format, system, of)!;
        const other = median(format, 'victoria', of);
        const ratio =
          system === 'victoria' || other === undefined ? '' : ` (${(value / other).toFixed(2)})`;
        return value.toFixed(digits) + ratio;
      });
      return [`${format} ${system}`, [format, system, ...cells]];
    }),
  );
  const titles = ['format', 'system', ...columns.map(({ title }) => title)];
  const lines = [titles, titles.map(() => '---'), ...rows.values()];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
