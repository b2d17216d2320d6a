/** Formats of lines. */
import {
  formatCarbon,
  formatCarbonCleanedUp,
  formatInflux,
  formatOpenMetrics,
  formatPrometheus,
} from '#engine/write_decoder/lines/layout.ts';

/** Of bodies, and of what comes without an answer. */
export type TextFormat = 'influx' | 'prometheus_text' | 'openmetrics' | 'carbon';
export type StreamFormat =
  | 'carbon'
  | 'carbon_cleaned_up'
  | 'opentsdb'
  | 'statsd'
  | 'statsd_graphite';
type LineFormat = TextFormat | StreamFormat;

/** As the decoder, and as metrics name them; statsd's flushes, and what OpenTSDB's commands come to, are lines, too. */
export const lineFormats: Readonly<
  Record<LineFormat, { readonly code: number; readonly name: string }>
> = {
  influx: { code: formatInflux, name: 'influx' },
  prometheus_text: { code: formatPrometheus, name: 'prometheus_text' },
  openmetrics: { code: formatOpenMetrics, name: 'openmetrics' },
  carbon: { code: formatCarbon, name: 'carbon' },
  carbon_cleaned_up: { code: formatCarbonCleanedUp, name: 'carbon' },
  opentsdb: { code: formatPrometheus, name: 'opentsdb' },
  statsd: { code: formatPrometheus, name: 'statsd' },
  statsd_graphite: { code: formatCarbon, name: 'statsd' },
};

/** About what it takes to read a line, and a window without rows at least, in units of work (lib/turns/turns.ts). */
export const lineUnits = 60;

/** Unit of times of a stream. */
export function unitNanosOf(format: StreamFormat): bigint {
  return lineFormats[format].code === formatPrometheus ? 1_000_000n : 1n;
}

/** Whether it brings paths as IDs. */
export function bringsPaths(format: LineFormat): boolean {
  const { code } = lineFormats[format];
  return code === formatCarbon || code === formatCarbonCleanedUp;
}
