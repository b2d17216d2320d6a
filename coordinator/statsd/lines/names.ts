/** Names of statsd as Prometheus has them, and the tags that dialects of statsd put into lines. */

/** Which tags are read. */
export interface TagDialects {
  /** `name:1|c|#key:value,…` */
  readonly dogstatsd: boolean;
  /** `name,key=value,…:1|c` */
  readonly influxdb: boolean;
  /** `name#key=value,…:1|c` */
  readonly librato: boolean;
  /** `na[key=value,…]me:1|c` */
  readonly signalfx: boolean;
}

export const allDialects: TagDialects = {
  dogstatsd: true,
  influxdb: true,
  librato: true,
  signalfx: true,
};

/** Characters that names of Prometheus do not have become `_`, and one stands before a digit at the begin. */
export function escapedName(name: string): string {
  const escaped = name.replace(/[^a-zA-Z0-9_:]/gu, '_');
  return /^[0-9]/.test(escaped) ? `_${escaped}` : escaped;
}

/** A name without its tags, which are added to `labels`. @returns the name, and how many tags were none */
export function takeNameTags(
  text: string,
  dialects: TagDialects,
  labels: Map<string, string>,
): { readonly name: string; readonly badTags: number } {
  if (dialects.signalfx) {
    const start = text.indexOf('[');
    const end = text.indexOf(']');
    if (start >= 0 && end > start) {
      const badTags = takeTags(text.slice(start + 1, end), '=', labels);
      return { name: text.slice(0, start) + text.slice(end + 1), badTags };
    }
    if (start >= 0 || end >= 0) return { name: text, badTags: 1 };
  }
  for (let at = 0; at < text.length; at++) {
    const isBegin =
      (text[at] === '#' && dialects.librato) || (text[at] === ',' && dialects.influxdb);
    if (!isBegin) continue;
    return { name: text.slice(0, at), badTags: takeTags(text.slice(at + 1), '=', labels) };
  }
  return { name: text, badTags: 0 };
}

/** Adds tags to `labels`. @returns how many are none, or have a name of ours: they are left out */
export function takeTags(text: string, separator: ':' | '=', labels: Map<string, string>): number {
  let bad = 0;
  for (const each of text.split(',')) {
    const tag = separator === ':' && each.startsWith('#') ? each.slice(1) : each;
    const at = tag.indexOf(separator);
    const name = at > 0 && at < tag.length - 1 ? escapedName(tag.slice(0, at)) : '__';
    if (name.startsWith('__')) bad++;
    else labels.set(name, tag.slice(at + 1));
  }
  return bad;
}
