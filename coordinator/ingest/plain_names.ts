/** Names of other systems as names here, as those of Influx's lines are made: bytes that a name may not have become underscores. */

/** A metric's, which may have colons. */
export function plainMetricName(text: string): string {
  return plainName(text, /[^a-zA-Z0-9_:]/g);
}

export function plainTagName(text: string): string {
  return plainName(text, /[^a-zA-Z0-9_]/g);
}

function plainName(text: string, not: RegExp): string {
  // A byte is a character here.
  const bytes = Buffer.from(text).toString('latin1');
  return bytes.replace(not, '_').replace(/^[0-9]/, '_');
}
