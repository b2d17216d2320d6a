/**
 * Coordinators read at their default level, `unstrict_majority`: with fewer replicas than that they answer all the same, and
 * say so. Such an answer may lack what was acknowledged; any other one may not.
 */

/** @param warnings of an answer */
export function isOfFewer(warnings: readonly string[]): boolean {
  return warnings.some((warning) => warning.startsWith('fewer replicas than asked for answered'));
}
