/** Containers that a podTemplate brings beside ours, and that do not start or begin to fail. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type World, settledWorld } from './world_testing.ts';

const beside = (image: string): object => ({
  spec: { containers: [{ name: 'shipper', image }] },
});

/** Passes, in which no pod is taken while another one of its component is away. */
async function passes(world: World, count: number): Promise<string[]> {
  const taken: string[] = [];
  for (let pass = 0; pass < count; pass++) {
    const before = world.kube.writes.length;
    const down = world.kube
      .ofKind('Pod')
      .map(({ metadata }) => metadata.name)
      .filter((name) => !world.serves(name));
    await world.reconcile().catch(() => {});
    for (const write of world.kube.writes.slice(before)) {
      if (!/^(EVICT|DELETE) Pod\//.test(write)) continue;
      taken.push(write.replace(' Pod/c-', ' '));
      assert.deepEqual(down, [], `${write} while others do not serve`);
    }
    await world.clock.pass(2_000);
    await world.advance();
  }
  return taken;
}

for (const component of ['etcd', 'nodes'] as const) {
  test(`a bad container beside ${component} stops at the first pod, and taking it back cures it`, async () => {
    const world = await settledWorld();
    world.badSidecars.add('shipper:bad');
    world.changeSpec((spec) => {
      spec[component] = { ...spec[component], podTemplate: beside('shipper:bad') };
    });
    const taken = await passes(world, 40);
    assert.equal(taken.length, 1, taken.join());
    assert.equal(world.condition('Ready').status, 'False');
    assert.equal(world.condition('Available').status, 'True');
    world.changeSpec((spec) => {
      delete spec[component].podTemplate;
    });
    assert.equal((await passes(world, 40)).length, 1);
    assert.equal(world.condition('Ready').status, 'True');
  });

  test(`mending what fails beside all of ${component} takes one pod after the other`, async () => {
    const world = await settledWorld();
    world.changeSpec((spec) => {
      spec[component] = { ...spec[component], podTemplate: beside('shipper:1') };
    });
    assert.equal((await passes(world, 60)).length, 3);
    assert.equal(world.condition('Ready').status, 'True');
    world.badSidecars.add('shipper:1');
    assert.deepEqual(await passes(world, 30), []);
    assert.equal(world.condition('Available').status, 'True', 'our processes serve');
    world.changeSpec((spec) => {
      spec[component].podTemplate = beside('shipper:2');
    });
    assert.equal((await passes(world, 60)).length, 3);
    assert.equal(world.condition('Ready').status, 'True');
  });
}
