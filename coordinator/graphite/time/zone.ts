/** Calendar of a time zone, by its name; the machine's own zone plays no part. */
import { badRequest, shownText } from '#lib/errors.ts';

/** A day and a time of day somewhere; `month` and `day` from 1. */
export interface WallTime {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
}

const daySeconds = 86_400;
/** Longest name. */
const nameLengthMax = 100;

export class Zone {
  readonly name: string;
  readonly #format: Intl.DateTimeFormat | null;

  /** @throws {TsdbError} BAD_REQUEST when there is no such zone */
  constructor(name: string) {
    this.name = name;
    this.#format = name === 'UTC' ? null : formatOf(name);
  }

  /** Of Unix seconds, which may have a fraction: it is left out. */
  wallTime(unixSeconds: number): WallTime {
    const date = new Date((Math.floor(unixSeconds) + this.offsetSeconds(unixSeconds)) * 1000);
    return {
      year: date.getUTCFullYear(),
      month: date.getUTCMonth() + 1,
      day: date.getUTCDate(),
      hour: date.getUTCHours(),
      minute: date.getUTCMinutes(),
      second: date.getUTCSeconds(),
    };
  }

  /**
   * Unix seconds of a time of day. One that is there twice, when clocks are set back, is the later one; one
   * that is skipped is taken as if clocks were not set forward yet. Days outside of their month go on in the next.
   */
  unixSeconds({ year, month, day, hour, minute, second }: WallTime): number {
    const asUtc = Date.UTC(year, month - 1, day, hour, minute, second) / 1000;
    const before = this.offsetSeconds(asUtc - daySeconds);
    const after = this.offsetSeconds(asUtc + daySeconds);
    const isRight = (offset: number) => this.offsetSeconds(asUtc - offset) === offset;
    const offsets = [before, after].filter(isRight);
    return asUtc - Math.min(...(offsets.length > 0 ? offsets : [before, after]));
  }

  /** What clocks there show less UTC. */
  offsetSeconds(unixSeconds: number): number {
    if (this.#format === null) return 0;
    const seconds = Math.floor(unixSeconds);
    const parts = new Map<string, number>();
    for (const { type, value } of this.#format.formatToParts(seconds * 1000)) {
      parts.set(type, Number(value));
    }
    const of = (type: string) => parts.get(type)!;
    const asUtc = Date.UTC(
      of('year'),
      of('month') - 1,
      of('day'),
      of('hour'),
      of('minute'),
      of('second'),
    );
    return asUtc / 1000 - seconds;
  }

  /** Whether clocks are set forward then: its offset is above the least one around that year. */
  isDaylightSaving(unixSeconds: number): boolean {
    const half = 182 * daySeconds;
    const here = this.offsetSeconds(unixSeconds);
    return (
      here >
      Math.min(this.offsetSeconds(unixSeconds - half), this.offsetSeconds(unixSeconds + half))
    );
  }
}

function formatOf(name: string): Intl.DateTimeFormat {
  if (name.length > nameLengthMax) {
    throw badRequest(
      `cannot read time zone: longer than ${nameLengthMax} characters: ${shownText(name)}`,
    );
  }
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  } catch (cause) {
    throw badRequest(`cannot read time zone: there is none of this name: ${shownText(name)}`, {
      cause,
    });
  }
}
