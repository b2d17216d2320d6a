import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { test } from 'node:test';
import { ChildSignal } from '../env/wait.ts';
import { openAccount } from './accounts.ts';
import { loopTurn, ownTurn, sliceMillis, Turns, type Work } from './turns.ts';

const never = new AbortController().signal;

/** A clock that work moves: each unit takes a thousandth of a millisecond. */
class WorkClock {
  millis = 0;
  readonly clock = { monotonicMillis: () => this.millis };
  readonly turns: Turns = Turns.of(this.clock);

  /** Works for so long, in pieces that give way. @returns when it was done */
  async work(work: Work, millis: number): Promise<number> {
    for (let done = 0; done < millis; done += 0.5) {
      this.millis += 0.5;
      if (work.spend(30_000)) await work.pause();
    }
    return this.millis;
  }
}

test('who asks for a turn of the loop of its own gets one, in the order in which they ask', async () => {
  let turn = 0;
  let isOver = false;
  const counting = (async () => {
    for (; !isOver; turn++) await loopTurn();
  })();
  const turns: number[] = [];
  const ask = async (index: number): Promise<void> => {
    await ownTurn();
    turns.push(turn);
    assert.equal(turns.length, index + 1);
  };
  await Promise.all(Array.from({ length: 20 }, (_, i) => ask(i)));
  assert.equal(new Set(turns).size, 20);
  await ask(20);
  isOver = true;
  await counting;
});

test('a short piece of work passes those that have had more time', async () => {
  const clock = new WorkClock();
  const { turns } = clock;
  const long = Array.from({ length: 10 }, () => clock.work(turns.begin(never), 400));
  while (clock.millis < 500) await new Promise(setImmediate);
  const begunMillis = clock.millis;
  const doneMillis = await clock.work(turns.begin(never), 20);
  // Its own slices, and of four turns one that is of another piece.
  assert.ok(doneMillis - begunMillis <= 20 + 4 * sliceMillis, `${doneMillis - begunMillis}`);
  await Promise.all(long);
  assert.equal(turns.waiting, 0);
});

test('a short piece waits for a millisecond of each long one that has only begun', async () => {
  const clock = new WorkClock();
  const { turns } = clock;
  const long = Array.from({ length: 50 }, () => clock.work(turns.begin(never), 40));
  // In the same turn of the loop, whose slice the others have used up.
  const short = clock.work(turns.begin(never), 1);
  const begunMillis = clock.millis;
  const doneMillis = await short;
  // A quarter of the time is the oldest one's.
  const most = 50 * (1 + 1 / 3) + 3 * sliceMillis;
  assert.ok(doneMillis - begunMillis <= most, `${doneMillis - begunMillis}`);
  await Promise.all(long);
});

test('what is done for one request counts together, by whatever signal of it', async () => {
  const clock = new WorkClock();
  const { turns } = clock;
  const request = (): AbortSignal => {
    const { signal } = new AbortController();
    openAccount(signal);
    return signal;
  };
  // Twenty requests with forty stages of two milliseconds, each of which asks for a turn as somebody new.
  let isOver = false;
  const staged = Array.from({ length: 20 }, async () => {
    const signal = request();
    for (let stage = 0; stage < 40 && !isOver; stage++) {
      const child = new ChildSignal(signal);
      const work = turns.begin(child.signal);
      await work.pause();
      await clock.work(work, 2);
      child.end();
    }
  });
  while (clock.millis < 200) await new Promise(setImmediate);
  const waits: number[] = [];
  for (let i = 0; i < 5; i++) {
    const begunMillis = clock.millis;
    const work = turns.begin(request());
    await work.pause();
    await clock.work(work, 3);
    waits.push(clock.millis - begunMillis);
  }
  isOver = true;
  await Promise.all(staged);
  assert.ok(Math.max(...waits) <= 3 + 4 * sliceMillis, waits.join());
});

test('of many reads of a request that begin together few do in one turn of the loop what cannot be divided', async () => {
  const clock = new WorkClock();
  const { turns } = clock;
  const { signal } = new AbortController();
  openAccount(signal);
  let longestMillis = 0;
  let isOver = false;
  const watching = (async () => {
    for (let last = clock.millis; !isOver; last = clock.millis) {
      await loopTurn();
      longestMillis = Math.max(longestMillis, clock.millis - last);
    }
  })();
  const undivided = async (): Promise<void> => {
    const work = turns.begin(signal);
    if (work.isLateAgain()) await work.pause();
    clock.millis += 2;
    work.spend(20_000);
  };
  await Promise.all(Array.from({ length: 30 }, undivided));
  // A request of its own does not wait for these.
  const other = turns.begin(new AbortController().signal);
  assert.ok(!other.isLateAgain());
  isOver = true;
  await watching;
  assert.ok(longestMillis <= sliceMillis + 2, `${longestMillis}`);
});

const foreseen: Record<string, (work: Work) => void> = {
  'a read of many series': (work) => work.foreseeSeries(20_000),
  'a query of many selectors': (work) => work.foreseeReads(400),
};
for (const [what, foresee] of Object.entries(foreseen)) {
  test(`${what} is known to take long, and not before a small one that has had more`, async () => {
    const clock = new WorkClock();
    const { turns } = clock;
    let isOver = false;
    // As soon as one ends its client begins another: each has had little.
    const clients = Array.from({ length: 50 }, async () => {
      while (!isOver) {
        const work = turns.begin(never);
        await clock.work(work, 0.5);
        foresee(work);
        await clock.work(work, 20);
      }
    });
    while (clock.millis < 200) await new Promise(setImmediate);
    const begunMillis = clock.millis;
    const doneMillis = await clock.work(turns.begin(never), 8);
    isOver = true;
    assert.ok(doneMillis - begunMillis <= 8 + 6 * sliceMillis, `${doneMillis - begunMillis}`);
    await Promise.all(clients);
  });
}

test('a short piece in whose time the collector works is still a short one', async () => {
  const clock = new WorkClock();
  const { turns } = clock;
  let isOver = false;
  const clients = Array.from({ length: 20 }, async () => {
    while (!isOver) await clock.work(turns.begin(never), 400);
  });
  while (clock.millis < 8000) await new Promise(setImmediate);
  const begunMillis = clock.millis;
  const work = turns.begin(never);
  await clock.work(work, 1);
  clock.millis += 500;
  await clock.work(work, 3);
  const waitedMillis = clock.millis - begunMillis - 500;
  isOver = true;
  await Promise.all(clients);
  assert.ok(waitedMillis <= 4 + 8 * sliceMillis, `${waitedMillis}`);
});

test('none starves while short ones come again and again', async () => {
  const clock = new WorkClock();
  const long = clock.work(clock.turns.begin(never), 100);
  let isOver = false;
  const others = Array.from({ length: 3 }, async () => {
    while (!isOver) await clock.work(clock.turns.begin(never), 8);
  });
  const doneMillis = await long;
  isOver = true;
  await Promise.all(others);
  assert.ok(doneMillis < 100 * 10, `${doneMillis}`);
});

test('small ones that come again and again do not pass each other', async () => {
  const clock = new WorkClock();
  const waits: number[] = [];
  const client = async (index: number): Promise<void> => {
    for (let request = 0; request < 50; request++) {
      const beganMillis = clock.millis;
      const work = clock.turns.begin(never);
      // Three of four are done at once, but for what they wait for.
      const steps = (index + request) % 4 === 0 ? 7 : 2;
      for (let step = 0; step < steps; step++) {
        await clock.work(work, 0.5);
        await work.outside(new Promise(setImmediate));
      }
      waits.push(clock.millis - beganMillis);
    }
  };
  await Promise.all(Array.from({ length: 40 }, (_, index) => client(index)));
  const mean = waits.reduce((sum, wait) => sum + wait, 0) / waits.length;
  const longest = Math.max(...waits);
  assert.ok(longest < 5 * mean, `the longest is ${longest} ms, the mean ${mean}`);
});

test('large ones end one after the other, the oldest first', async () => {
  const clock = new WorkClock();
  const large = Array.from({ length: 10 }, () => clock.work(clock.turns.begin(never), 400));
  const doneMillis = await Promise.all(large);
  assert.deepEqual(
    doneMillis,
    doneMillis.toSorted((a, b) => a - b),
  );
  assert.equal(clock.millis, 4000);
  // Each has its first tenth of a second, then most of the time is of the oldest.
  assert.ok(doneMillis[0]! < 10 * 100 + 500, `${doneMillis[0]}`);
  assert.ok(doneMillis[4]! < 10 * 100 + 5 * 400, `${doneMillis[4]}`);
});

test('the loop looks at its sockets between two slices, and all that begin share the first one', async () => {
  const clock = new WorkClock();
  const looks: number[] = [];
  let isOver = false;
  const look = (): void => {
    looks.push(clock.millis);
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  await Promise.all(Array.from({ length: 50 }, () => clock.work(clock.turns.begin(never), 10)));
  isOver = true;
  const longest = Math.max(...looks.slice(1).map((at, i) => at - looks[i]!));
  // Fifty that begin at once do half a millisecond each before they look at the clock.
  assert.ok(longest <= 50 * 0.5 + 2 * sliceMillis, `${longest}`);
  assert.equal(clock.millis, 500);
});

test('who waits for others does not spend its own time', async () => {
  const clock = new WorkClock();
  const work = clock.turns.begin(never);
  await clock.work(work, 2);
  await work.outside(
    new Promise<void>((resolve) => {
      setImmediate(() => {
        clock.millis += 1000;
        resolve();
      });
    }),
  );
  await clock.work(work, 2);
  assert.ok(work.attainedMillis <= 4, `${work.attainedMillis}`);
});

test('who waits for others without saying so does not spend its own time either', async () => {
  const clock = new WorkClock();
  const { turns } = clock;
  const work = turns.begin(never);
  await clock.work(work, 2);
  for (let i = 0; i < 3; i++) {
    await new Promise<void>((resolve) => {
      setImmediate(() => {
        setImmediate(() => {
          clock.millis += 1000;
          resolve();
        });
      });
    });
    // It has waited for long: so it gives way at its next look, and holds up nobody as a large one.
    assert.ok(work.spend(30_000));
    assert.ok(work.attainedMillis <= 4, `${work.attainedMillis}`);
    assert.ok(turns.usedMillis <= 4, `${turns.usedMillis}`);
  }
  await work.pause();
  await clock.work(work, 2);
  assert.ok(work.attainedMillis <= 6, `${work.attainedMillis}`);
});

test('who waits for what settles at once gives way all the same', async () => {
  const clock = new WorkClock();
  const work = clock.turns.begin(never);
  let looks = 0;
  let isOver = false;
  const look = (): void => {
    looks += 1;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  for (let i = 0; i < 1000; i++) {
    clock.millis += 0.5;
    await work.outside(Promise.resolve());
  }
  isOver = true;
  assert.ok(looks >= 500 / (2 * sliceMillis), `${looks}`);
});

test('work that is cancelled ends with the reason in its next turn, before others', async () => {
  const clock = new WorkClock();
  const cancel = new AbortController();
  const others = Array.from({ length: 20 }, () => clock.work(clock.turns.begin(never), 50));
  const work = clock.turns.begin(cancel.signal);
  const cancelled = clock.work(work, 1000);
  // It has just had its turn, so the others would come before it.
  while (work.attainedMillis < 4 * sliceMillis) await new Promise(setImmediate);
  cancel.abort(new Error('over'));
  const atMillis = clock.millis;
  await assert.rejects(cancelled, /over/);
  assert.ok(clock.millis - atMillis <= 2 * sliceMillis, `${clock.millis - atMillis}`);
  await Promise.all(others);
});

test('others do not wait for a turn of each of a thousand that are cancelled together', async () => {
  const clock = new WorkClock();
  const { turns } = clock;
  const cancel = new AbortController();
  const many = Array.from({ length: 1000 }, async (_, i) => {
    const work = turns.begin(cancel.signal, i % 2 === 0 ? 'read' : 'kv');
    await clock.work(work, 0.5);
    await work.pause();
  });
  const settled = Promise.allSettled(many);
  while (turns.waiting < many.length) await new Promise(setImmediate);
  cancel.abort(new Error('over'));
  const begunTurn = turns.turned;
  const work = turns.begin(never);
  await work.pause();
  await clock.work(work, 2);
  assert.ok(turns.turned - begunTurn <= 4, `${turns.turned - begunTurn} turns of the loop`);
  assert.ok(turns.waiting > 900, `${turns.waiting} still have to end`);
  for (const { status } of await settled) assert.equal(status, 'rejected');
  assert.ok(turns.turned - begunTurn <= 1000 / 8 + 20, `${turns.turned - begunTurn}`);
});

test('connections do not wait for a slice each, and slices not for all connections', async () => {
  const clock = new WorkClock();
  const count = 200;
  let accepted = 0;
  const server = createServer((socket) => {
    clock.turns.noteConnection();
    clock.millis += 0.1;
    accepted += 1;
    socket.destroy();
  });
  server.listen({ host: '127.0.0.1', port: 0, backlog: count });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const work = clock.work(clock.turns.begin(never), 4000);
  for (let i = 0; i < count; i++) connect(port, '127.0.0.1').on('error', () => {});
  const begunMillis = clock.millis;
  while (accepted < count) await new Promise(setImmediate);
  const slices = Math.round((clock.millis - begunMillis - count * 0.1) / sliceMillis);
  assert.ok(slices <= count / 10, `${slices} slices while ${count} connections came`);
  assert.ok(slices >= 4, `${slices}`);
  server.close();
  await work;
});

test('where sockets take long in each turn of the loop, small pieces go on several times in one', async () => {
  for (const [socketsMillis, turnsMax, turnsMin] of [
    [60, 4, 1],
    [10, 40, 6],
  ] as const) {
    const clock = new WorkClock();
    const { turns } = clock;
    let loops = 0;
    let isOver = false;
    const sockets = (): void => {
      loops += 1;
      clock.millis += socketsMillis;
      if (!isOver) setImmediate(sockets);
    };
    setImmediate(sockets);
    const long = Array.from({ length: 5 }, () => clock.work(turns.begin(never), 400));
    while (clock.millis < 200 * socketsMillis) await new Promise(setImmediate);
    const [loopsBefore, begunMillis] = [loops, clock.millis];
    await clock.work(turns.begin(never), 15);
    const loopsOfSmall = loops - loopsBefore;
    const [loopsThen, millisThen] = [loops, clock.millis];
    await Promise.race(long);
    const millisOfLoop = (clock.millis - millisThen) / (loops - loopsThen);
    isOver = true;
    await Promise.all(long);
    const told = `sockets ${socketsMillis}: ${loopsOfSmall} turns of the loop`;
    assert.ok(loopsOfSmall <= turnsMax && loopsOfSmall >= turnsMin, told);
    if (socketsMillis > 20)
      assert.ok(millisThen - begunMillis < 300, `${millisThen - begunMillis}`);
    // Large ones have a slice in each turn, as ever: sockets come first.
    assert.ok(millisOfLoop <= socketsMillis + 2 * sliceMillis, `${millisOfLoop} in a turn`);
  }
});

test('small pieces that go on where sockets take long take no turn of others', async () => {
  const attained = async (areSmall: boolean): Promise<number[]> => {
    const clock = new WorkClock();
    const { turns } = clock;
    let isOver = false;
    const sockets = (): void => {
      clock.millis += 60;
      if (!isOver) setImmediate(sockets);
    };
    setImmediate(sockets);
    const large = (['write', 'stream', 'read', 'kv'] as const).map((kind) =>
      turns.begin(never, kind),
    );
    const all = large.map(async (work) => {
      while (!isOver) await clock.work(work, 50);
    });
    const small = Array.from({ length: areSmall ? 3 : 0 }, async () => {
      while (!isOver) await clock.work(turns.begin(never), 3);
    });
    while (clock.millis < 20_000) await new Promise(setImmediate);
    isOver = true;
    const millis = large.map((work) => work.attainedMillis);
    await Promise.all([...all, ...small]);
    return millis;
  };
  const [without, beside] = [await attained(false), await attained(true)];
  // Reads share theirs with the small ones; the other kinds have what they had.
  for (const kind of [0, 1, 3]) {
    assert.ok(beside[kind]! > 0.6 * without[kind]!, `${beside.join()} beside, ${without.join()}`);
  }
  assert.ok(beside[2]! > 0.05 * without[2]!, beside.join());
});

test('where the clock stands so much work is a slice', async () => {
  const turns = Turns.of({ monotonicMillis: () => 0 });
  const work = turns.begin(never);
  let pauses = 0;
  for (let i = 0; i < 100; i++) {
    if (!work.spend(100_000)) continue;
    pauses++;
    await work.pause();
  }
  assert.equal(pauses, 10);
});

test('a thousand writes hold up no read for longer than one of them, and the other way round', async () => {
  for (const [many, one] of [
    ['write', 'read'],
    ['read', 'write'],
    ['stream', 'read'],
    ['stream', 'write'],
    ['kv', 'read'],
    ['kv', 'write'],
  ] as const) {
    const clock = new WorkClock();
    const all = Array.from({ length: 1000 }, () => clock.work(clock.turns.begin(never, many), 10));
    // It has had more than any of them.
    const late = clock.turns.begin(never, one);
    await clock.work(late, 3);
    const begunMillis = clock.millis;
    const doneMillis = await clock.work(late, 12);
    assert.ok(doneMillis - begunMillis <= 12 + 5 * sliceMillis, `${doneMillis - begunMillis}`);
    await Promise.all(all);
  }
});
