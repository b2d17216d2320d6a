/** Connections that are many, slow, or full of requests; and the smaller doors. */
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { ask, headOf, RawConnection } from './http.ts';

const slowHeaders: Attack = {
  name: 'headers that come slowly',
  subject: 'connections',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const span = new Span(seconds);
    const port = random.pick([ports.coordinator, ports.coordinator, ports.httpNode, ports.debug]);
    const connections = await RawConnection.openMany(port, 500);
    for (const connection of connections) {
      connection.write('GET /health HTTP/1.1\r\nHost: localhost\r\n');
    }
    while (!span.isOver) {
      await delay(Math.min(3000, span.leftMillis));
      for (const connection of connections) connection.write('X-A: b\r\n');
    }
    for (const connection of connections) {
      answers.note(connection.outcome);
      connection.leave();
    }
    return answers;
  },
};

const idle: Attack = {
  name: 'connections without a request',
  subject: 'connections',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const span = new Span(seconds);
    const port = random.pick([ports.coordinator, ports.httpNode, ports.grpc]);
    const connections = await RawConnection.openMany(port, 1000);
    await delay(span.leftMillis);
    for (const connection of connections) {
      answers.note(connection.outcome);
      connection.leave();
    }
    return answers;
  },
};

const comeAndGo: Attack = {
  name: 'connections that come and go',
  subject: 'connections',
  async run({ ports: { coordinator } }, _seed, seconds) {
    const answers = new Answers();
    await keepDoing(new Span(seconds), 20, async () => {
      const connection = await RawConnection.open(coordinator);
      connection.write(headOf('GET /health').slice(0, 20));
      answers.note('left');
      connection.leave();
    });
    return answers;
  },
};

const ahead: Attack = {
  name: 'requests sent ahead',
  subject: 'connections',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const span = new Span(seconds);
    const requests = headOf(`GET ${random.pick(['/api/v1/query?query=marker', '/health'])}`);
    const connections = await RawConnection.openMany(coordinator, 2);
    for (const connection of connections) connection.write(requests.repeat(20_000));
    await delay(span.leftMillis);
    for (const connection of connections) {
      answers.note(connection.outcome);
      connection.leave();
    }
    return answers;
  },
};

const scrapesHeld: Attack = {
  name: 'the metrics port held',
  subject: 'connections',
  async run({ ports }, _seed, seconds) {
    const answers = new Answers();
    const span = new Span(seconds);
    const held = await RawConnection.openMany(ports.metrics, 150);
    for (const connection of held) connection.write('GET /metrics HTTP/1.1\r\n');
    // Prometheus comes with a new connection meanwhile; that it gets in is the test.
    await keepDoing(span, 1, async () => {
      const { status } = await ask(ports.metrics, '/metrics', { timeoutMillis: 10_000 });
      answers.note(`scrape ${status}`);
      await delay(100);
    });
    for (const connection of held) connection.leave();
    return answers;
  },
};

const profiles: Attack = {
  name: 'profiles at once',
  subject: 'connections',
  async run({ ports: { debug } }, _seed, seconds) {
    const answers = new Answers();
    await keepDoing(new Span(seconds), 10, async (round) => {
      const kind = round % 2 === 0 ? 'profile' : 'heap';
      answers.note((await ask(debug, `/debug/pprof/${kind}?seconds=0.5`)).status);
      await delay(20);
    });
    return answers;
  },
};

export const connectionAttacks: readonly Attack[] = [
  slowHeaders,
  idle,
  comeAndGo,
  ahead,
  scrapesHeld,
  profiles,
];
