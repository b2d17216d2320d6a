/** Who sends to the listeners of lines: what is no line, lines that do not end, names that are all new, and answers that nobody reads. */
import { createSocket } from 'node:dgram';
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, Span, type Target } from './attack.ts';
import { RawConnection } from './http.ts';

const chunkBytes = 1 << 18;
/** Of connections; the listeners take thousands. */
const connections = 20;
const chunksAtOnce = 4;

/** Chunks without end. */
type Chunks = () => Uint8Array;

function same(line: string): Chunks {
  const chunk = Buffer.from(line.repeat(Math.ceil(chunkBytes / line.length)));
  return () => chunk;
}

function numbered(random: SeededRandom, of: (name: string) => string): Chunks {
  const tag = random.below(1e9);
  let count = 0;
  return () =>
    Buffer.from(Array.from({ length: 4000 }, () => of(`${tag}-${count++}`)).join('\n') + '\n');
}

function noise(random: SeededRandom): Chunks {
  const chunk = Buffer.from(Array.from({ length: 65_536 }, () => random.below(256)));
  return () => chunk;
}

/** A pickle that is a list in a list and so on; one of a million numbers; lengths that lie. */
function pickles(random: SeededRandom): Chunks {
  const of = (message: Uint8Array): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(message.length);
    return Buffer.concat([length, message]);
  };
  const some = [
    of(Buffer.alloc(1 << 20, ']')),
    of(
      Buffer.concat([
        Buffer.from('('),
        Buffer.alloc(1 << 19, Buffer.of(0x4b, 1)),
        Buffer.from('l.'),
      ]),
    ),
    of(
      Buffer.concat([Buffer.from('(('), Buffer.alloc(1 << 18, Buffer.from('2')), Buffer.from('.')]),
    ),
    of(Buffer.from('cos\nsystem\n(S"true"\ntR.')),
    Buffer.concat([Buffer.of(0, 0x0f, 0xff, 0xff), Buffer.alloc(100)]),
  ];
  return () => random.pick(some);
}

type Flood = readonly [
  listener: keyof Target['listeners'],
  chunks: (random: SeededRandom) => Chunks,
];

const floods: readonly Flood[] = [
  ['carbon', noise],
  ['carbon', () => same('\n')],
  ['carbon', () => same('x')],
  ['carbon', () => same('attacked.a;b=c;d=e nan 5\n')],
  ['carbon', (random) => numbered(random, (name) => `attacked.${name} 1 -1`)],
  ['carbon', () => same(`${'a;'.repeat(2000)} 1 -1\n`)],
  ['carbonPickle', pickles],
  ['openTsdb', noise],
  ['openTsdb', () => same('\n')],
  ['openTsdb', () => same('help\n')],
  ['openTsdb', () => same('put\n')],
  ['openTsdb', (random) => numbered(random, (name) => `put attacked 1e3 1 a=${name}`)],
  ['openTsdb', () => same(`put ${'a=b '.repeat(1500)}\n`)],
  ['statsd', noise],
  ['statsd', () => same('\n')],
  ['statsd', () => same('x')],
  ['statsd', () => same('attacked:1|c|@0.00000001\n')],
  ['statsd', () => same(`attacked:${'1:'.repeat(3000)}1|ms\n`)],
  ['statsd', (random) => numbered(random, (name) => `attacked.${name}:1|c|#a:${name}`)],
  ['statsd', (random) => numbered(random, (name) => `attacked.set:${name}|s`)],
];

const streams: Attack = {
  name: 'streams of lines that are none',
  subject: 'connections',
  async run({ listeners }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const span = new Span(seconds);
    await Promise.all(
      Array.from({ length: connections }, async () => {
        while (!span.isOver) {
          const [listener, chunks] = random.pick(floods);
          const next = chunks(random);
          // Answers are left unread by some.
          const connection = await RawConnection.open(listeners[listener], random.below(2) === 0);
          for (let i = 0; !span.isOver && !connection.isClosed && i < 200; ) {
            if (connection.writeWhenTaken(next(), chunksAtOnce * chunkBytes)) i++;
            else await delay(1);
          }
          answers.note(`${listener} ${connection.isClosed ? 'closed' : 'open'}`);
          connection.leave();
        }
      }),
    );
    return answers;
  },
};

const packets: Attack = {
  name: 'packets of lines that are none',
  subject: 'connections',
  async run({ listeners }, seed, seconds) {
    const answers = new Answers();
    const random = new SeededRandom(seed);
    const span = new Span(seconds);
    const socket = createSocket('udp4');
    socket.on('error', () => {});
    const kinds = floods.filter(([listener]) => listener === 'statsd').map(([, of]) => of(random));
    while (!span.isOver) {
      for (let i = 0; i < 50; i++) {
        const packet = random.pick(kinds)().subarray(0, 60_000);
        socket.send(packet, listeners.statsd, '127.0.0.1');
      }
      answers.note('50 packets');
      await delay(1);
    }
    await new Promise<void>((resolve) => {
      socket.close(() => resolve());
    });
    return answers;
  },
};

/** More than a listener takes: the newest ones have the places of those that have sent nothing for longest. */
const begunConnections = 5_500;
const openedAtOnce = 100;

const begun: Attack = {
  name: 'thousands of lines that are begun',
  subject: 'connections',
  async run({ listeners }, seed, seconds) {
    const answers = new Answers();
    const span = new Span(seconds);
    const random = new SeededRandom(seed);
    const listener = random.pick(['carbon', 'carbonPickle', 'openTsdb', 'statsd'] as const);
    const held: RawConnection[] = [];
    while (held.length < begunConnections && !span.isOver) {
      const opened = await RawConnection.openMany(listeners[listener], openedAtOnce);
      for (const connection of opened) connection.write('put attacked.a');
      held.push(...opened);
    }
    await delay(span.leftMillis);
    for (const connection of held) {
      answers.note(`${listener} ${connection.outcome}`);
      connection.leave();
    }
    return answers;
  },
};

export const senderAttacks: readonly Attack[] = [streams, packets, begun];
