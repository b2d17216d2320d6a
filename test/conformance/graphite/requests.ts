/** Requests of the suites, as handlers get them. */
import type { QuerySettings } from '#coordinator/reads/options.ts';
import type { ApiAnswer, ApiRequest } from '#coordinator/http/http_api.ts';

import { onTheLoop, type Turning } from '#engine/aside/aside.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';

export const settings: QuerySettings = {
  timeoutMillis: 30_000,
  lookbackMillis: 300_000,
  seriesMax: 100_000,
  rangeMillisMax: 0,
  requireExhaustive: true,
};

export function turningOf(signal: AbortSignal): Turning {
  return { work: Turns.of(realEnv.clock).begin(signal), aside: onTheLoop };
}

export function parametersOf(
  pairs: readonly (readonly [string, string | number])[],
): URLSearchParams {
  return new URLSearchParams(pairs.map(([name, value]): [string, string] => [name, String(value)]));
}

export function requestOf(parameters: URLSearchParams): ApiRequest {
  return {
    method: 'GET',
    pathParameters: {},
    urlParameters: parameters,
    header: () => '',
    signal: new AbortController().signal,
    readMemory: unlimitedReadBytes,
  };
}

/** Of an answer that is a text or made in parts. */
export async function answerText({ body }: ApiAnswer): Promise<string> {
  if (typeof body === 'string') return body;
  if (body instanceof Uint8Array) return Buffer.from(body).toString();
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts).toString();
}
