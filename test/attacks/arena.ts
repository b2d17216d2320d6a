/** A victim, honest clients and strangers, each a process; and what is seen of the first two. */
import { setTimeout as delay } from 'node:timers/promises';
import { Attacker, type FromAttacker, type PlannedAttack } from './attacker.ts';
import { addMeasured, type Measured, noneMeasured, Probe } from './probe.ts';
import { rssBytesMax, Victim } from './victim.ts';

const watchMillis = 50;
const markerMillis = 250;
/** What is resident has grown when it is so many times what it was. */
const grownShare = 1.05;

/** Beyond this the machine itself is in danger: the victim is killed, which fails it. */
const killedBytes: number = 2 * rssBytesMax;

export interface Observation {
  /** Of the others, from the begin of the attacks until some time after their end. */
  readonly measured: Measured;
  readonly rssBeforeBytes: number;
  readonly rssMaxBytes: number;
  readonly answers: FromAttacker;
  /** What must not be, a sentence each. */
  readonly problems: readonly string[];
}

export class Arena {
  readonly victim: Victim;
  readonly #probe: Probe;
  readonly #attacker: Attacker;

  private constructor(victim: Victim, probe: Probe, attacker: Attacker) {
    this.victim = victim;
    this.#probe = probe;
    this.#attacker = attacker;
  }

  static async open(folder: string): Promise<Arena> {
    const victim = await Victim.start(folder);
    const probe = new Probe(victim.ports.coordinator, victim.pid);
    return new Arena(
      victim,
      probe,
      new Attacker({ ports: victim.ports, listeners: victim.listeners }),
    );
  }

  /** How it is when nobody attacks. */
  async alone(seconds: number): Promise<Observation> {
    await this.#probe.take();
    return this.#observe(async () => {
      await delay(seconds * 1000);
      return [];
    }, 0);
  }

  /** @param settleMillis what comes so long after the last attack is still counted as its effect */
  async attacked(attacks: readonly PlannedAttack[], settleMillis: number): Promise<Observation> {
    await this.#probe.take();
    return this.#observe(() => this.#attacker.run(attacks), settleMillis);
  }

  /** Reads back all that the others were told is written. */
  readAllBack(): Promise<string[]> {
    return this.#probe.readBack(true);
  }

  async close(): Promise<number | null> {
    this.#attacker.stop();
    this.#probe.stop();
    return this.victim.stop();
  }

  async #observe(during: () => Promise<FromAttacker>, settleMillis: number): Promise<Observation> {
    const { victim } = this;
    const problems: string[] = [];
    const rssBeforeBytes = victim.rssBytes;
    let rssMaxBytes = rssBeforeBytes;
    let isOver = false;
    const watching = setInterval(() => {
      rssMaxBytes = Math.max(rssMaxBytes, victim.rssBytes);
      if (rssMaxBytes > killedBytes) victim.kill();
    }, watchMillis);
    const markerRead = (async () => {
      while (!isOver && victim.isRunning) {
        await delay(markerMillis);
        const { isAnswered, isWhole, text } = await victim.readMarker();
        if (isAnswered && !isWhole) {
          problems.push(`the marker meanwhile: ${text}`);
          return;
        }
      }
    })();
    const measured = noneMeasured();
    let answers: FromAttacker = [];
    try {
      answers = await during();
      await delay(settleMillis);
      addMeasured(measured, await this.#probe.take());
    } finally {
      isOver = true;
      clearInterval(watching);
      await markerRead;
    }
    for (const { name, error } of answers) {
      if (error !== null) problems.push(`${name} got what nobody may get: ${error}`);
    }
    if (!victim.isRunning) {
      const end = victim.logEnd();
      return {
        measured,
        rssBeforeBytes,
        rssMaxBytes,
        answers,
        problems: [...problems, `the process has ended: ${end}`],
      };
    }
    const marker = await victim.markerWhole();
    if (!marker.isWhole) problems.push(`the marker afterwards: ${marker.text}`);
    const changed = await victim.changedSettings();
    if (changed !== null) problems.push(`settings: ${changed}`);
    if (measured.wrong > 0) {
      problems.push(`${measured.wrong} wrong answers: ${measured.wrongAnswers.join('; ')}`);
    }
    if (measured.failed > 0) {
      problems.push(`${measured.failed} requests failed: ${measured.failures.join('; ')}`);
    }
    problems.push(...(await this.#probe.readBack(false)));
    // Else an earlier one has left it so.
    if (rssMaxBytes > Math.max(rssBytesMax, grownShare * rssBeforeBytes)) {
      const before = `${mebibytes(rssBeforeBytes)} before`;
      problems.push(
        `resident: ${mebibytes(rssMaxBytes)} of ${mebibytes(rssBytesMax)} MiB, ${before}`,
      );
    }
    return { measured, rssBeforeBytes, rssMaxBytes, answers, problems };
  }
}

export function mebibytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}
