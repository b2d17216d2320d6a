/**
 * IDs beside those of M3's coordinator. The digests are of what `models.Tags.ID()` of its v1.5.0 makes of the same tag sets,
 * which `tagSetLines` gives it: a line of JSON each, ended by a line feed, as its IDs are.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { SeededRandom } from '#test/seeded_random.ts';
import type { Tag } from '../tags.ts';
import { idOfTags } from './from_tags.ts';

const tagSetsMax = 100_000;
/** Of M3, by the digests of its IDs one after the other. */
const digests = {
  quoted: 'ff05795dd48c9353687809fbed271182a7a2450217ea21efa6275e7baaeb90d3',
  prepend_meta: 'b95c610dcd599fac8c69b000981fa742304c6864dc21f6fb098adfb42854e587',
} as const;

const random = new SeededRandom(22);
const pick = random.pick.bind(random);

/** Of letters mostly, of what is quoted, of what cannot be printed, and of all that there is. */
function character(): string {
  switch (random.below(8)) {
    case 0:
      return pick('"\\\'`={},:;!~ \t\n\r\v\f\b\u0007\u0000\u001b\u007f'.split(''));
    case 1:
      return String.fromCodePoint(random.below(0x100));
    case 2:
      return String.fromCodePoint(pick([0x2000, 0x200b, 0x2028, 0x202e, 0xfeff, 0xfffd, 0xffff]));
    case 3: {
      const point = random.below(0x11_0000);
      return point >= 0xd800 && point < 0xe000 ? 'ä' : String.fromCodePoint(point);
    }
    default:
      return pick('abcdefghijklmnopqrstuvwxyzABCXYZ0123456789_-.'.split(''));
  }
}

/** M3 leaves a text alone in which nothing else is escaped than backslashes: there ours differ on purpose (escape.ts). */
const notEscapedByM3 = /^(?=.*\\)[ !#-~]*$/;

function text(lengthMax: number): string {
  const some = Array.from({ length: random.below(lengthMax + 1) }, character).join('');
  return notEscapedByM3.test(some) ? `${some}"` : some;
}

function tagSet(): readonly Tag[] {
  const byName = new Map<string, string>();
  for (let left = 1 + random.below(8); left > 0; left -= 1) {
    const name = pick(['__name__', 'job', 'instance', `label_${random.below(20)}`, text(12)]);
    byName.set(name, text(pick([0, 4, 20, 200])));
  }
  return [...byName]
    .map(([name, value]) => ({ name, value }))
    .sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
}

const tagSets = Array.from({ length: tagSetsMax }, tagSet);

/** What M3's function is given. */
export function* tagSetLines(): Generator<string> {
  for (const tags of tagSets) yield `${JSON.stringify(tags)}\n`;
}

for (const scheme of ['quoted', 'prepend_meta'] as const) {
  test(`${tagSetsMax} tag sets have the IDs that M3 gives them: ${scheme}`, () => {
    const hash = createHash('sha256');
    for (const tags of tagSets) hash.update(`${idOfTags(tags, scheme)}\n`);
    assert.equal(hash.digest('hex'), digests[scheme]);
  });
}
