import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import type { ReadBytes } from '#lib/read_memory/read_memory.ts';
import { Turns } from '#lib/turns/turns.ts';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';
import { EventStore, eventsMax } from '../events/event_store.ts';

test('events are kept, found by time and tags, and counted in targets', async () => {
  await using test = await TestCoordinator.openReady();
  const start = nowSeconds() - 100;
  const post = (event: unknown) =>
    test.post('/events/', JSON.stringify(event), {
      'Content-Type': 'application/json',
    });
  for (const event of [
    { what: 'rollout', tags: ['Deploy', 'web'], when: start, data: 'v2' },
    { what: 'again', tags: 'deploy db', when: start + 7 },
    { what: 'earlier', when: start - 50 },
    { what: 'now' },
  ]) {
    const answer = await post(event);
    assert.equal(answer.status, 200, answer.text);
  }
  const found = async (query: string): Promise<string[]> => {
    const answer = await test.get(`/events/get_data?${query}`);
    assert.equal(answer.status, 200, answer.text);
    return (answer.json as { what: string }[]).map(({ what }) => what);
  };
  assert.deepEqual((await test.get(`/events/?tags=web`)).json, [
    { id: 1, when: start, what: 'rollout', tags: ['Deploy', 'web'], data: 'v2' },
  ]);
  assert.deepEqual(await found(''), ['earlier', 'rollout', 'again', 'now']);
  assert.deepEqual(await found(`from=${start}&until=${start + 7}`), ['rollout', 'again']);
  assert.deepEqual(await found('tags=deploy%20web'), ['rollout']);
  assert.deepEqual(await found('tags=web%20db&set=union'), ['rollout', 'again']);
  const rendered = await test.get(
    `/render?format=json&noNullPoints=1&target=events("deploy")&from=${start - 20}&until=${start + 20}`,
  );
  assert.deepEqual(rendered.json[0].datapoints, [
    [1, start],
    [1, start + 7],
  ]);
  for (const [event, reason] of [
    [[], /event: not an object/],
    [{}, /what: not a text/],
    [{ what: 'a', when: -1 }, /when: not Unix seconds: -1/],
    [{ what: 'a', tags: [1] }, /tags: neither a text nor a list/],
    [{ what: 'a', data: 5 }, /data: not a text: 5/],
    [{ what: 'a', why: '' }, /event: unknown field: why/],
    [{ what: 'x'.repeat(9000) }, /event: more than 8192 bytes/],
    [{ what: 'a', tags: 'a '.repeat(9000) }, /tags: longer than 8192 characters: 18000/],
  ] as const) {
    const answer = await post(event);
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.text, reason);
  }
  const words = Array.from({ length: 101 }, (_, k) => `w${k}`).join('+');
  for (const [query, reason] of [
    ['set=none', /set: neither/],
    [`tags=${words}`, /tags: more than 100: 101/],
    [`set=union&tags=${'a+'.repeat(5_000)}`, /tags: longer than 8192 characters: 10000/],
  ] as const) {
    const answer = await test.get(`/events/get_data?${query}`);
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.text, reason);
  }
});

test('all coordinators have the same events, of which the oldest go', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock });
  const cluster = { environment: 'test', zone: 'embedded' };
  const stores = [new EventStore(kv.client(), cluster), new EventStore(kv.client(), cluster)];
  const work = Turns.of(realEnv.clock).begin(new AbortController().signal);
  const eventAt = (when: number) => ({ when, what: `${when}`, tags: [], data: '' });
  const [first, second] = stores as [EventStore, EventStore];
  for (let when = 10; when < 10 + eventsMax; when += 2) {
    await Promise.all([first.add(eventAt(when), work), second.add(eventAt(when + 1), work)]);
  }
  await second.add(eventAt(11), work);
  const all = await first.find({ fromSeconds: 0, untilSeconds: 1e10 }, null, 'all', work, null);
  assert.deepEqual([all.length, all[0]!.when, all[1]!.when], [eventsMax, 11, 11]);
  assert.equal(new Set(all.map(({ id }) => id)).size, eventsMax);
  await assert.rejects(first.add(eventAt(5), work), /when: before the 1000 events that are kept/);
});

test('events of an answer are its memory, and who is refused holds up nobody', async () => {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const store = new EventStore(kv, { environment: 'test', zone: 'embedded' });
  const turns = Turns.of(realEnv.clock);
  const work = turns.begin(new AbortController().signal);
  for (let when = 0; when < 20; when++) {
    await store.add({ when, what: 'x', tags: [], data: 'd'.repeat(8_000) }, work);
  }
  let room = 500_000;
  const memory: ReadBytes = {
    tryGrow: (bytes) => bytes <= room,
    grow: async (bytes) => {
      room -= bytes;
      if (room < 0) throw new TsdbError('RESOURCE_EXHAUSTED', 'no room');
    },
    give: () => {},
  };
  const find = (untilSeconds: number, signal: AbortSignal) =>
    store.find({ fromSeconds: 0, untilSeconds }, null, 'all', turns.begin(signal), memory);
  const { signal } = new AbortController();
  const gone = new AbortController();
  const asked = [find(9, signal), find(19, signal), find(0, gone.signal), find(-1, signal)];
  gone.abort(new Error('gone'));
  const answers = await Promise.allSettled(asked);
  assert.deepEqual(
    answers.map((each) => (each.status === 'fulfilled' ? each.value.length : each.reason.message)),
    [10, 'no room', 'gone', 0],
  );
});
