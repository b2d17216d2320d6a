import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '#lib/log.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';
import { specOf, World } from '../world_testing.ts';
import { openFailpoints } from './failpoints.ts';

const signal = new AbortController().signal;

function open(text: string) {
  const clock = new FakeClock();
  let exits = 0;
  const exit = () => {
    exits++;
    throw new Error('the process has ended');
  };
  const failpoints = openFailpoints(text, { env: fakeEnv(clock), log: silentLog, exit });
  return { failpoints, clock, exits: () => exits };
}

test('what is asked for happens at that write, before it is sent or after it was answered', async () => {
  const { failpoints, exits } = open('placement-add:before=error*1, namespace-add/b:after=exit');
  const sent: string[] = [];
  const around = (write: 'placement-add' | 'namespace-add', object: string) =>
    failpoints.around(write, object, async () => sent.push(`${write} ${object}`), signal);
  await assert.rejects(around('placement-add', ''), /failpoint placement-add:before=error/);
  assert.deepEqual(sent, []);
  await around('placement-add', '');
  await around('namespace-add', 'a');
  await assert.rejects(around('namespace-add', 'b'), /ended/);
  assert.deepEqual(sent, ['placement-add ', 'namespace-add a', 'namespace-add b']);
  assert.equal(exits(), 1);
});

test('what is no failpoint is refused with the names of the writes', () => {
  for (const text of ['placement-int:before=exit', 'lease:while=exit', 'event:after=delay(2)']) {
    assert.throws(() => open(text), /TSDB_OPERATOR_FAILPOINTS|duration/, text);
  }
  assert.throws(() => open('nothing:before=exit'), /placement-init .* cluster-status .* lease/);
});

const ownWrites = ['cluster', 'cluster-status', 'namespace-status', 'event'] as const;
const calls = ['placement-init', 'namespace-add', 'namespace-ready', 'apply/c-record'] as const;

for (const write of [...ownWrites, ...calls]) {
  for (const moment of ['before', 'after']) {
    test(`an operator that ends ${moment} ${write} goes on where it was`, async () => {
      const world = new World();
      let exits = 0;
      world.failpoints = openFailpoints(`${write}:${moment}=exit*1`, {
        env: fakeEnv(world.clock),
        log: silentLog,
        exit() {
          exits++;
          // What the process that has ended would do in the rest of its pass is not done.
          world.coordinatorUp = false;
          world.kube.beforeWrite = () => {
            throw new Error('the process has ended');
          };
          throw new Error('the process has ended');
        },
      });
      world.restartOperator();
      world.addCluster(specOf());
      world.addClaim('own', { retentionTime: '24h' });
      for (let pass = 0; pass < 30; pass++) {
        const before = exits;
        await world.reconcile().catch(() => {});
        if (exits > before) {
          world.coordinatorUp = true;
          world.kube.beforeWrite = () => {};
          world.restartOperator();
        }
        await world.advance();
        await world.clock.pass(2_000);
      }
      assert.equal(exits, 1);
      assert.equal(world.condition('Ready').status, 'True');
      const made = world.calls.filter((call) => !call.startsWith('namespace ready'));
      assert.deepEqual(made.sort(), ['init', 'namespace add default', 'namespace add own']);
    });
  }
}
