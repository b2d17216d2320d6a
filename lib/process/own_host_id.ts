/** The ID of this process's host, from the machine, its environment and files. */
import { hostname } from 'node:os';
import { resolveHostIdValue } from '../config/host_id.ts';
import type { HostIdConfig } from '../config/resolve/types.ts';
import type { Env } from '../env/env.ts';

/** @throws as `resolveHostIdValue` */
export function ownHostId(config: HostIdConfig, env: Env, stop: AbortSignal): Promise<string> {
  return resolveHostIdValue(
    config,
    {
      hostname: hostname(),
      environment: process.env,
      readFileText: async (path) =>
        (await env.disk.size(path)) === null
          ? null
          : Buffer.from(await env.disk.readFile(path)).toString(),
      monotonicMillis: () => env.clock.monotonicMillis(),
      sleep: (millis, signal) => env.clock.sleep(millis, signal),
    },
    stop,
  );
}
