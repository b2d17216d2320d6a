/** Errors that say where a file is damaged. */
import { badRequest, type TsdbError } from '#lib/errors.ts';

/** @param at bytes from the beginning of what is read */
export type Damage = (reason: string, at: number) => TsdbError;

export function damageOf(path: string): Damage {
  return (reason, at) => badRequest(`cannot read ${path}: ${reason} at byte ${at}`);
}

/** Of a part of a file. @param start of the part in the file */
export function damageFrom(damage: Damage, start: number): Damage {
  return (reason, at) => damage(reason, start + at);
}
