/** Bodies that never end, come in crumbs, stand still, or are more than they look. */
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { ask, headOf, jsonWritePath, RawConnection, remoteWritePath } from './http.ts';
import {
  bytesField,
  doubleField,
  numberField,
  seriesField,
  snappyLiterals,
  snappyRepeated,
  varint,
} from './protobuf.ts';
import { SeededRandom } from '../seeded_random.ts';

const chunkedHead = headOf(`POST ${jsonWritePath}`, { 'Transfer-Encoding': 'chunked' });
const mebibyte = 2 ** 20;

/** Sends a part again and again on some connections; one that the victim ends is opened again. */
const endless = (name: string, part: () => Uint8Array): Attack => ({
  name,
  subject: 'bodies',
  async run({ ports: { coordinator } }, _seed, seconds) {
    const answers = new Answers();
    const span = new Span(seconds);
    const payload = part();
    await keepDoing(span, 3, async () => {
      const connection = await RawConnection.open(coordinator);
      connection.write(chunkedHead);
      while (!span.isOver && !connection.isClosed) {
        // A victim that does not take it lets the attacker wait.
        if (connection.writeWhenTaken(payload)) await turn();
        else await delay(2);
      }
      answers.note(connection.outcome);
      connection.leave();
    });
    return answers;
  },
});

const crumbs = endless('bodies of one-byte chunks', () => Buffer.from('1\r\n \r\n'.repeat(20_000)));
const streams = endless('bodies without an end', () =>
  Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(65_536, ' '), Buffer.from('\r\n')]),
);

const atOnce: Attack = {
  name: 'a thousand writes that end at once',
  subject: 'bodies',
  async run({ ports: { coordinator } }, seed, seconds) {
    const answers = new Answers();
    const span = new Span(seconds);
    const rows = Array.from({ length: 620 }, (_, i) => ({
      tags: { __name__: `at_once_${seed}`, i: String(i) },
      timestamp: Math.floor(Date.now() / 1000),
      value: i,
    }));
    const body = JSON.stringify(rows);
    const head = headOf(`POST ${jsonWritePath}`, { 'Content-Length': String(body.length) });
    do {
      const connections = await RawConnection.openMany(coordinator, 1_000);
      for (const connection of connections) connection.write(head + body.slice(0, -1));
      await delay(Math.min(2_000, span.leftMillis / 2));
      for (const connection of connections) connection.write(body.slice(-1));
      await delay(Math.min(3_000, span.leftMillis));
      for (const connection of connections) {
        answers.note(connection.outcome);
        connection.leave();
      }
    } while (!span.isOver);
    return answers;
  },
};

const unfinished: Attack = {
  name: 'bodies that stand still',
  subject: 'bodies',
  async run({ ports: { coordinator, httpNode } }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const span = new Span(seconds);
    const [port, path] = random.pick([
      [coordinator, remoteWritePath],
      [coordinator, jsonWritePath],
      [coordinator, '/api/v1/database/create'],
      [httpNode, '/query'],
    ] as const);
    // Few with much, or many with little.
    const [count, sentBytes] = random.pick([
      [8, 12 * mebibyte],
      [200, 64 << 10],
      [500, 2],
    ] as const);
    const connections = await RawConnection.openMany(port, count);
    const head = headOf(`POST ${path}`, { 'Content-Length': String(15 * mebibyte) });
    const part = Buffer.alloc(Math.min(sentBytes, mebibyte), ' ');
    for (const connection of connections) connection.write(head);
    for (let sent = 0; sent < sentBytes; sent += part.length) {
      for (const connection of connections) connection.write(part);
      await delay(10);
    }
    await delay(span.leftMillis);
    for (const connection of connections) {
      answers.note(connection.outcome);
      connection.leave();
    }
    return answers;
  },
};

const remoteHeaders = {
  'content-encoding': 'snappy',
  'content-type': 'application/x-protobuf',
};

/** A megabyte as it is sent, a million samples of one series and 20 MiB when it is unpacked. */
function bombOf(samples: number): Buffer {
  const now = Date.now();
  const unit = seriesField({
    labels: { __name__: 'bomb', a: 'b' },
    samples: Array.from({ length: 800 }, (_, i) => [now - i, 1]),
  });
  return snappyRepeated(unit, samples / 800);
}

const bombs: Attack = {
  name: 'remote writes that unpack to much',
  subject: 'bodies',
  async run({ ports: { coordinator } }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const bodies = [
      bombOf(1_040_000),
      bombOf(240_000),
      bombOf(1_600_000),
      Buffer.concat([varint(2 ** 32 - 1), Buffer.alloc(100)]),
      Buffer.concat([varint(32 * mebibyte), Buffer.alloc(10)]),
    ];
    await keepDoing(new Span(seconds), random.pick([4, 12]), async () => {
      const body = random.pick(bodies);
      answers.note(
        (await ask(coordinator, remoteWritePath, { body, headers: remoteHeaders })).status,
      );
    });
    return answers;
  },
};

/** What comes with samples and costs more than they do: 400,000 exemplars, or entries of metadata, when it is unpacked. */
function notesOf(random: SeededRandom): Buffer {
  const label = (name: string, value: string): Buffer =>
    bytesField(1, Buffer.concat([bytesField(1, name), bytesField(2, value)]));
  const exemplar = (labels: readonly Buffer[]): Buffer =>
    bytesField(3, Buffer.concat([...labels, doubleField(2, 1), numberField(3, Date.now())]));
  const kind = random.below(4);
  const labels =
    kind === 0
      ? [label('trace_id', String(random.below(1e9)))]
      : Array.from({ length: 100 }, (_, i) => label(`n${i % 7}`, kind === 1 ? 'ä' : '\ud800'));
  const unit =
    kind === 3
      ? bytesField(3, bytesField(2, `family_${random.below(1e6)}`))
      : bytesField(
          1,
          Buffer.concat([
            label('__name__', `noted_${random.below(1000)}`),
            ...Array.from({ length: 10 }, () => exemplar(labels)),
          ]),
        );
  return snappyRepeated(unit, Math.floor((20 * mebibyte) / unit.length));
}

const notes: Attack = {
  name: 'exemplars and metadata without end',
  subject: 'bodies',
  async run({ ports: { coordinator } }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const bodies = Array.from({ length: 8 }, () => notesOf(random));
    await keepDoing(new Span(seconds), 4, async () => {
      const body = random.pick(bodies);
      const sent = { body, headers: remoteHeaders };
      answers.note((await ask(coordinator, remoteWritePath, sent)).status);
    });
    return answers;
  },
};

const seriesOfBody = 5000;
/** So many bodies have series of their own; then they come again, so that memory is not filled for good. */
const bodiesMax = 20;
const cardinalityBodies: Buffer[] = [];

function manySeries(index: number): Buffer {
  const timestampMillis = Date.now();
  const parts = Array.from({ length: seriesOfBody }, (_, i) =>
    seriesField({
      labels: { __name__: 'many', body: String(index), u: `u${index * seriesOfBody + i}` },
      samples: [[timestampMillis, i]],
    }),
  );
  return snappyLiterals(Buffer.concat(parts));
}

const cardinality: Attack = {
  name: 'ever new series',
  subject: 'bodies',
  async run({ ports: { coordinator } }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    await keepDoing(new Span(seconds), 4, async () => {
      if (cardinalityBodies.length < bodiesMax) {
        cardinalityBodies.push(manySeries(cardinalityBodies.length));
      }
      const body = random.pick(cardinalityBodies);
      answers.note(
        (await ask(coordinator, remoteWritePath, { body, headers: remoteHeaders })).status,
      );
    });
    return answers;
  },
};

export const bodyAttacks: readonly Attack[] = [
  crumbs,
  streams,
  atOnce,
  unfinished,
  bombs,
  notes,
  cardinality,
];
