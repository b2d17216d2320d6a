/** All samples that a server has, for comparing releases. */
import assert from 'node:assert/strict';
import { call } from './process.ts';

/** By the label `host`, ascending in time; values as PromQL prints them. */
export async function samplesOf(
  url: string,
): Promise<Record<string, [millis: number, value: string][]>> {
  const query = encodeURIComponent('{host=~".+"}[50y]');
  const answer = await call('GET', `${url}/api/v1/query?query=${query}`);
  assert.equal(answer.status, 200, answer.text);
  const found: Record<string, [number, string][]> = {};
  for (const { metric, values } of answer.json.data.result) {
    found[metric.host] = values.map(([seconds, value]: [number, string]) => [
      Math.round(seconds * 1000),
      value,
    ]);
  }
  return found;
}
