/** Tracing as the configuration asks for it. */
import type { TracingConfig } from '../config/resolve/types.ts';
import type { Clock } from '../env/env.ts';
import type { Log } from '../log.ts';
import type { Tracing } from './tracing.ts';

/** @returns null when nothing is traced: OpenTelemetry is not even loaded then */
export async function openTracing(
  config: TracingConfig | null,
  version: string,
  parts: { readonly clock: Pick<Clock, 'sleep'>; readonly log: Log },
): Promise<Tracing | null> {
  if (config === null) return null;
  const { OpenTelemetry } = await import('./open_telemetry.ts');
  return new OpenTelemetry(config, version, parts);
}
