/** Packets, whole and damaged, must come to what their lines come to as texts, one by one. */
import assert from 'node:assert/strict';
import { BrokenInvariant } from '#lib/assert.ts';
import { isUtf8 } from 'node:buffer';
import { countInputs } from '#test/sim/counts.ts';
import { type Pick, pickOf } from '#test/sim/mutate.ts';
import { parseLine, type StatsdEvent } from './line.ts';
import { allDialects, type TagDialects } from './names.ts';
import { type EventSink, lineBytesMax, LineReader } from './reader.ts';

const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;

function name(pick: Pick): string {
  const tags = ['', '', '', '#a=b', ',a=b,c=d', '[a=b]', '[', ']', ',a', '#x=é', '#__x=1'];
  return (
    some(pick, ['a', 'web.requests', 'x'.repeat(pick(30)), 'é', '', '\xff', 'a b']) +
    some(pick, tags)
  );
}

function value(pick: Pick): string {
  const digits = String(pick(10 ** (1 + pick(9))));
  return some(pick, [
    digits,
    digits,
    `-${digits}`,
    `+${digits}`,
    `${digits}.${digits}`,
    `.${digits}`,
    `${digits}.`,
    '',
    '.',
    '-',
    '1e3',
    '1e999',
    'inf',
    'NaN',
    '123456789012345678',
    '0.1234567890123456',
    '0.0023849010467529297',
    '-1e-05',
    '+.5E2',
    '1:2:3',
    `${digits}:1e-05:-${digits}.${digits}`,
    '1:x:3',
    'member',
    'é',
  ]);
}

function part(pick: Pick): string {
  const rates = [
    '@0.1',
    '@1',
    '@0',
    '@',
    '@x',
    '@-1',
    '@0.30000000000000004',
    '@1e-3',
    '@inf',
    '@nan',
    '@0.0000001',
    '@2',
  ];
  const tags = ['#a:b', '#a:b,c:d', '#a', '#', '#a:b,#c:d', '#__n:x', '#é:è', '#a:b:c'];
  const others = ['T123', 'T', 'c:id', 'c:', 'c', 'e:x', 'card:low', 'x', '', 'extra:x'];
  return some(pick, [some(pick, rates), some(pick, tags), some(pick, tags), some(pick, others)]);
}

function line(pick: Pick): string {
  const parts = Array.from({ length: pick(3) === 0 ? pick(6) : pick(2) }, () => part(pick));
  const type = some(pick, ['c', 'c', 'g', 'ms', 'h', 'd', 's', 'm', 'x', '', 'C', 'c:2|c']);
  const whole = [`${name(pick)}:${value(pick)}`, type, ...parts].join('|');
  return pick(40) === 0 ? whole.slice(0, pick(whole.length + 1)) : whole;
}

/** All that is said, in words. */
class Told implements EventSink {
  readonly timerUnitMillis = 1000;
  readonly lines: string[] = [];
  readonly #targets: string[] = [];

  targetOf({ type, name, labels }: Series): number {
    return this.#targets.push(`${type} ${name} ${JSON.stringify([...labels])}`) - 1;
  }

  take(target: number, value: number, times: number, isRelative: boolean): void {
    this.lines.push(`${this.#targets[target]} ${value} ${times} ${isRelative}`);
  }

  takeMember(target: number, member: string): void {
    this.lines.push(`${this.#targets[target]} ${member}`);
  }

  forward(): void {
    throw new BrokenInvariant('nothing is of others here');
  }

  noteLine(): void {
    this.lines.push('line');
  }

  noteProblem(problem: string): void {
    this.lines.push(problem);
  }

  notePartProblem(problem: string): void {
    this.lines.push(problem);
  }
}

type Series = Readonly<Omit<StatsdEvent, 'value' | 'times' | 'isRelative' | 'member'>>;

/** The twin: each line as a text. */
function toldPlainly(packet: Uint8Array, dialects: TagDialects): string[] {
  const told = new Told();
  for (const bytes of linesOf(packet)) {
    if (bytes.length === 0) continue;
    told.noteLine();
    if (bytes.length > lineBytesMax || !isUtf8(bytes)) {
      told.noteProblem('malformed_line');
      continue;
    }
    const { events, problems, partProblems } = parseLine(Buffer.from(bytes).toString(), dialects);
    for (const problem of [...problems, ...partProblems]) told.noteProblem(problem);
    for (const event of events) {
      const target = told.targetOf(event);
      if (event.type === 'set') told.takeMember(target, event.member);
      else {
        const value = event.type === 'timer' ? event.value / 1000 : event.value;
        told.take(target, value, event.times, event.isRelative);
      }
    }
  }
  return told.lines;
}

function* linesOf(packet: Uint8Array): Iterable<Uint8Array> {
  let from = 0;
  for (let at = packet.indexOf(10); at >= 0; at = packet.indexOf(10, from)) {
    yield packet.subarray(from, at);
    from = at + 1;
  }
  yield packet.subarray(from);
}

export function fuzz(seed: number, size: number): void {
  const pick = pickOf(seed);
  const dialects =
    pick(2) === 0 ? allDialects : { ...allDialects, dogstatsd: false, librato: false };
  const told = new Told();
  const reader = new LineReader(told, dialects, pick(2 ** 32));
  for (let packets = 0; packets < size; packets++) {
    const lines = Array.from({ length: pick(12) }, () => line(pick));
    if (pick(50) === 0) lines.push(`${'n'.repeat(lineBytesMax - 6 + pick(8))}:1|c`);
    const packet = Buffer.from(lines.join('\n') + some(pick, ['', '\n', '\r\n', '\n\n']));
    if (pick(10) === 0 && packet.length > 0) packet[pick(packet.length)] = pick(256);
    if (pick(200) === 0) reader.forget();
    // A part of a larger array, as packets are.
    const within = Buffer.concat([Buffer.from(':1|c\n'), packet, Buffer.from('|c\n')]).subarray(
      5,
      5 + packet.length,
    );
    told.lines.length = 0;
    reader.read(within);
    assert.deepEqual(
      told.lines,
      toldPlainly(packet, dialects),
      `seed ${seed}: ${packet.toString()}`,
    );
    countInputs('statsd');
  }
}
