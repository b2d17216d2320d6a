/** What requests and the configuration say of forced tags, in M3's words. */
import { Fields } from '#cluster/fields.ts';
import { badRequest, messageOf, shownText, TsdbError } from '#lib/errors.ts';
import { parseJson } from '#lib/json/text.ts';
import { type ApiRequest, namedHeaders } from '../http/http_api.ts';
import type { Matcher } from '../select/storage.ts';
import { forcedByBoth, type ForcedTags, isForcing, nothingForced } from './forced_tags.ts';

export const forcedTagsHeader = 'Restrict-By-Tags-JSON';

/** Matchers of one header; more are refused. */
const matchersMax = 64;

/** M3's kinds of matchers. */
const kinds = ['EQUAL', 'NOTEQUAL', 'REGEXP', 'NOTREGEXP', 'EXISTS', 'NOTEXISTS'] as const;

/**
 * What the headers of a request force on it, beside what is forced on all: a request that could loosen it would read what it may
 * not, so that each of several stands beside the others.
 * @throws {TsdbError} BAD_REQUEST for a header that makes no sense, or that forces nothing
 */
export function forcedTagsOf(request: ApiRequest, ofAll: ForcedTags): ForcedTags {
  return namedHeaders(request, forcedTagsHeader).reduce(
    (forced, { name, value }) => forcedByBoth(forced, forcedByHeader(name, value)),
    ofAll,
  );
}

function forcedByHeader(name: string, text: string): ForcedTags {
  try {
    // Bytes of headers come as characters of Latin-1.
    const value = parseJson(Buffer.from(text, 'latin1'), { valuesMax: 10 * matchersMax });
    const forced = forcedTags(value);
    if (isForcing(forced)) return forced;
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    throw badRequest(`header ${name}: ${messageOf(error)}`, { cause: error });
  }
  throw badRequest(
    `header ${name}: it forces nothing, without match and strip: ${shownText(text)}`,
  );
}

/**
 * @param value `{match: [{name, type, value}], strip: [name]}`; without `strip` names of `match` are left out of answers
 * @throws {TsdbError} BAD_REQUEST
 */
export function forcedTags(value: unknown): ForcedTags {
  const fields = Fields.of(value, '');
  const matchers = fields.list('match', matcherOf);
  const hidden = fields.has('strip') ? fields.strings('strip') : matchers.map(({ name }) => name);
  fields.end();
  if (matchers.length > matchersMax) {
    throw badRequest(`match: more than ${matchersMax}: ${matchers.length}`);
  }
  return matchers.length === 0 && hidden.length === 0
    ? nothingForced
    : { matchers, hidden: new Set(hidden) };
}

function matcherOf(fields: Fields): Matcher {
  const name = fields.string('name', '');
  if (name === '') throw badRequest(`${fields.path}.name: missing`);
  if (!fields.has('type')) throw badRequest(`${fields.path}.type: missing`);
  const type = fields.oneOf('type', kinds, 'EQUAL');
  const value = fields.string('value', '');
  fields.end();
  switch (type) {
    case 'EQUAL':
      return { name, kind: '=', value };
    case 'NOTEQUAL':
      return { name, kind: '!=', value };
    case 'REGEXP':
      return { name, kind: '=~', value };
    case 'NOTREGEXP':
      return { name, kind: '!~', value };
    case 'EXISTS':
      return { name, kind: '!=', value: '' };
    case 'NOTEXISTS':
      return { name, kind: '=', value: '' };
    default:
      return type satisfies never;
  }
}
