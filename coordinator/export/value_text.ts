/** Values of samples as text that is read back bit for bit. */
import { prometheusNanHigh, prometheusNanLow } from './nan.ts';

/** Of a float64 that is no number. */
function nanText(low: number, high: number): string {
  if (low === prometheusNanLow && high === prometheusNanHigh) return 'NaN';
  const hex = (word: number): string => word.toString(16).padStart(8, '0');
  return `NaN:${hex(high)}${hex(low)}`;
}

/** @param low and `high`: words of the value */
export function valueJson(value: number, low: number, high: number): string {
  if (Number.isFinite(value)) return numberText(value);
  if (!Number.isNaN(value)) return value > 0 ? '"Infinity"' : '"-Infinity"';
  const text = nanText(low, high);
  return text === 'NaN' ? 'null' : `"${text}"`;
}

export function valueText(value: number, low: number, high: number): string {
  if (Number.isFinite(value)) return numberText(value);
  if (!Number.isNaN(value)) return value > 0 ? '+Inf' : '-Inf';
  return nanText(low, high);
}

function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}
