/** The state of an import, and with which namespaces it goes on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { Journal, nothingDone } from './journal.ts';

test('the journal goes on with the import that wrote it, and with no other', async () => {
  const files = new Map<string, Uint8Array>();
  const disk = {
    size: async (path: string) => files.get(path)?.length ?? null,
    readFile: async (path: string) => files.get(path)!,
    writeFileAtomic: async (path: string, bytes: Uint8Array) => void files.set(path, bytes),
  };
  const of = { kind: 'm3', source: '/data', coordinator: 'http://a' };
  const namespace = (name: string, number: number, retentionNanos = 9n) => {
    return { name, number, retentionNanos };
  };
  const journal = new Journal(disk, 'f', of, [namespace('n', 5)]);
  assert.deepEqual(await journal.read(), nothingDone);
  const taken = new Map([
    ['x', { rows: 4, refused: 0, isDamaged: false, untagged: 0 }],
    ['y', { rows: 5, refused: 2, isDamaged: true, untagged: 3 }],
  ]);
  const waiting = new Map([['z', ['0/7']]]);
  const progress = { taken, waiting, part: 'z', series: 3, rows: 9, refused: 1 };
  await journal.write(progress);
  assert.deepEqual(await journal.read(), progress);
  await assert.rejects(
    new Journal(disk, 'f', { ...of, kind: 'remote' }, []).read(),
    /of another import/,
  );
  const readWith = (...now: readonly (readonly [name: string, number: number])[]) =>
    new Journal(
      disk,
      'f',
      of,
      now.map((each) => namespace(...each)),
    ).read();
  const madeAgain = { message: /--state f: its rows went into n, deleted since: remove the file/ };
  await assert.rejects(readWith(['n', 6]), madeAgain);
  await assert.rejects(readWith(['other', 1]), madeAgain);
  // As a backup of the key-value store has it, and beside one that is new.
  assert.deepEqual(await readWith(['n', 4], ['other', 9]), progress);
  assert.deepEqual(await readWith(['n', 0]), progress, 'a coordinator of before does not say it');
  await assert.rejects(readWith(), madeAgain);
  const former = Buffer.from(files.get('f')!).toString();
  files.set('f', Buffer.from(former.replace('{"number":5,"retentionNanos":"9"}', '5')));
  assert.deepEqual(await readWith(['n', 5]), progress, 'a state of before has numbers alone');
  await assert.rejects(readWith(['n', 6]), madeAgain);
  files.set('f', Buffer.from('{'));
  await assert.rejects(journal.read(), /not the state of an import/);
});

test('rows that are in several namespaces are there while each stands, or what is left keeps them as long', () => {
  const namespace = (name: string, number: number, retentionNanos: bigint) => {
    return { name, number, retentionNanos };
  };
  const [long, short, equal] = [
    namespace('long', 1, 90n),
    namespace('short', 2, 2n),
    namespace('equal', 3, 90n),
  ];
  const check = (before: readonly (typeof long)[], now: readonly (typeof long)[]) => () =>
    new Journal(
      realEnv.disk,
      'f',
      { kind: 'm3', source: '', coordinator: '' },
      before,
    ).checkNamespaces(now);
  for (const now of [[long], [long, short], [long, namespace('other', 9, 90n)]]) {
    assert.doesNotThrow(check([long, short], now));
  }
  assert.doesNotThrow(check([long, equal], [equal]));
  const gone = (name: string) => ({ message: new RegExp(`went into ${name}, deleted since`) });
  assert.throws(check([long, short], [short]), gone('long'));
  assert.throws(check([long, short], [namespace('long', 7, 90n), short]), gone('long'));
  assert.throws(check([long, short], [long, namespace('short', 7, 2n)]), gone('short'));
  assert.throws(check([long, short], []), gone('long, short'));
});
