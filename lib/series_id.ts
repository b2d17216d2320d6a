/**
 * Series IDs from tags: the schemes of SPEC.txt ("Series ID generation scheme").
 *
 *     quoted        {__name__="up",job="node"}          values escaped as Go's strconv.Quote does
 *     prepend_meta  8,2,3,4!__name__upjobnode           lengths of name, value, name, value, …
 *     legacy        __name__=up,job=node,               may collide; kept for old deployments
 */
import { type Tags } from './tags.ts';

/** Names as in `tagOptions.idScheme`; the number is the scheme's byte in batches and filesets. */
export const idSchemeCode = { explicit: 0, quoted: 1, prepend_meta: 2, legacy: 3 } as const;

export type IdScheme = Exclude<keyof typeof idSchemeCode, 'explicit'>;

/** ID of a series whose tags are sorted. */
export function idOfTags(tags: Tags, scheme: IdScheme): string {
  switch (scheme) {
    case 'quoted':
      return `{${tags.map((tag) => `${tag.name}=${quote(tag.value)}`).join(',')}}`;
    case 'prepend_meta': {
      const lengths = tags.flatMap((tag) => [
        Buffer.byteLength(tag.name),
        Buffer.byteLength(tag.value),
      ]);
      return `${lengths.join(',')}!${tags.map((tag) => tag.name + tag.value).join('')}`;
    }
    case 'legacy':
      return tags.map((tag) => `${tag.name}=${tag.value},`).join('');
    default:
      return scheme satisfies never;
  }
}

// oxlint-disable-next-line no-control-regex -- control characters are what is escaped
const mustEscape = /["\\\u0000-\u001f\u007f]/;

function quote(text: string): string {
  if (!mustEscape.test(text)) return `"${text}"`;
  let quoted = '"';
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (character === '"' || character === '\\') quoted += `\\${character}`;
    else if (character === '\n') quoted += '\\n';
    else if (character === '\t') quoted += '\\t';
    else if (character === '\r') quoted += '\\r';
    else if (code < 32 || code === 127) quoted += `\\x${code.toString(16).padStart(2, '0')}`;
    else quoted += character;
  }
  return `${quoted}"`;
}
