/** A single VictoriaMetrics as a process. */
import { join } from 'node:path';
import { eventually, Program } from '../integration/process.ts';
import { freePorts } from '../ports.ts';

export interface VictoriaMetrics {
  readonly program: Program;
  readonly url: string;
}

/**
 * Starts it and waits until it answers.
 * @param binary found on the PATH when it has no folder
 * @param more further arguments
 */
export async function startVictoriaMetrics(
  folder: string,
  binary: string,
  more: readonly string[],
): Promise<VictoriaMetrics> {
  const [port] = (await freePorts(1)) as [number];
  const program = new Program('victoria-metrics', folder, binary, [
    `-storageDataPath=${join(folder, 'data')}`,
    `-httpListenAddr=127.0.0.1:${port}`,
    '-retentionPeriod=7d',
    ...more,
  ]);
  program.start();
  const url = `http://127.0.0.1:${port}`;
  await eventually('VictoriaMetrics answers', async () => (await fetch(`${url}/health`)).ok);
  return { program, url };
}
