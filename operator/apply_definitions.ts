/**
 * Brings the definitions of the resources in Kubernetes to those of this version (crds/): Helm writes
 * them once and never again.
 */
import { join } from 'node:path';
import type { Disk } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import { KubeApi } from './kube/kube_api.ts';

const folder = join(import.meta.dirname, '../crds');

/** @throws {KubeError} when Kubernetes refuses one */
export async function applyDefinitions(disk: Disk, log: Log, signal: AbortSignal): Promise<void> {
  const api = await KubeApi.connect();
  try {
    for (const file of (await disk.list(folder)).sort()) {
      const name = file.replace(/\.yaml$/, '.tsdb.io');
      const text = new TextDecoder().decode(await disk.readFile(join(folder, file)));
      await api.applyDefinition(name, text, signal);
      log.info({ definition: name }, 'definition applied');
    }
  } finally {
    api.close();
  }
}
