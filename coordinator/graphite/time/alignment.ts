/** Where the minute, the day, the week and so on begin. */
import type { Zone } from './zone.ts';

/** Beginnings of units' names, as intervals have them. */
const units = ['s', 'min', 'h', 'd', 'w', 'mon', 'y'] as const;

/** A unit of time by the beginning of its name; weeks may have the day behind them on which they begin, 1 for Monday. */
export function isAlignment(unit: string): boolean {
  return unitOf(unit) !== null;
}

function unitOf(text: string): (typeof units)[number] | null {
  return units.find((unit) => text.startsWith(unit)) ?? null;
}

/**
 * Unix seconds of the beginning of the unit in which a time is, by the zone's calendar.
 * @param text of `isAlignment`
 */
export function alignedStart(unixSeconds: number, text: string, zone: Zone): number {
  const now = zone.wallTime(unixSeconds);
  const { year, month, day, hour, minute } = now;
  const midnight = { year, month, day, hour: 0, minute: 0, second: 0 };
  switch (unitOf(text)) {
    case 'y':
      return zone.unixSeconds({ ...midnight, month: 1, day: 1 });
    case 'mon':
      return zone.unixSeconds({ ...midnight, day: 1 });
    case 'w': {
      const weekday = new Date(Date.UTC(year, month - 1, day)).getUTCDay();
      const last = Number(/[0-7]$/.exec(text)?.[0] ?? 1);
      return zone.unixSeconds({ ...midnight, day: day - ((weekday - last + 14) % 7) });
    }
    case 'd':
      return zone.unixSeconds(midnight);
    case 'h':
      return zone.unixSeconds({ ...midnight, hour });
    case 'min':
      return zone.unixSeconds({ ...midnight, hour, minute });
    case 's':
    case null:
      return Math.floor(unixSeconds);
  }
}
