/** For tests: what an instance has bootstrapped, as shard ID → the `sourceId` that it was taken from. */
import type { IsBootstrapped } from './algorithm.ts';

export function bootstrappedFrom(sources: ReadonlyMap<number, string>): IsBootstrapped {
  return ({ id, sourceId }) => sources.get(id) === sourceId;
}
