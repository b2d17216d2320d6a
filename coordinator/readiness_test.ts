import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NodeService } from '#cluster/node/service.ts';
import type { Placement } from '#cluster/placement/placement.ts';
import { Ownership } from '#cluster/topology/ownership.ts';
import type { TopologyView } from '#cluster/topology/topology.ts';
import { TsdbError } from '#lib/errors.ts';
import { takesWrites } from './readiness.ts';

const { signal } = new AbortController();

/** One shard of three replicas. */
const placement = {
  numShards: 1,
  replicaFactor: 3,
  instances: ['a', 'b', 'c'].map((id) => ({
    id,
    shards: [{ id: 0, state: 'AVAILABLE', sourceId: '' }],
  })),
} as unknown as Placement;
const topology = { view: { ownership: new Ownership(placement) } as TopologyView };

type Answer = 'takes' | 'refuses' | 'is away' | 'hangs';

function ask(answers: Readonly<Record<string, Answer>>): Promise<boolean> {
  const nodeOf = ({ id }: { readonly id: string }): NodeService => {
    const health = async () => {
      const answer = answers[id]!;
      if (answer === 'is away') throw new TsdbError('UNAVAILABLE', 'test');
      if (answer === 'hangs') await new Promise(() => {});
      return { writesRefused: answer === 'takes' ? '' : 'no space' };
    };
    return { health } as unknown as NodeService;
  };
  return takesWrites(topology, nodeOf, signal);
}

test('writes are taken while a majority of the replicas takes them', async () => {
  assert.equal(await ask({ a: 'takes', b: 'takes', c: 'takes' }), true);
  assert.equal(await ask({ a: 'takes', b: 'refuses', c: 'takes' }), true);
  assert.equal(await ask({ a: 'takes', b: 'refuses', c: 'is away' }), false);
});

test('a node that does not answer holds nobody up once the others decide', async () => {
  assert.equal(await ask({ a: 'takes', b: 'hangs', c: 'takes' }), true);
  assert.equal(await ask({ a: 'refuses', b: 'hangs', c: 'is away' }), false);
});
