import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metricTypes } from '#engine/typed/metadata.ts';
import { Comments } from './comments.ts';

/** Families as words, of a text that is cut each so many bytes. */
function toldOf(text: string, cut: number): string[] {
  const bytes = Buffer.from(text);
  const comments = new Comments();
  for (let at = 0; at < bytes.length; at += cut) comments.add(bytes.subarray(at, at + cut));
  return comments
    .families()
    .map(({ type, nameBytes, helpBytes, unitBytes }) =>
      [`${Buffer.from(nameBytes)}`, metricTypes.indexOf(type) > 0 ? type : '-']
        .concat([`${Buffer.from(helpBytes)}`, `${Buffer.from(unitBytes)}`])
        .join('|'),
    );
}

test('comments are found wherever the text is cut, and nowhere else', () => {
  const text = [
    '# HELP a of "a": \\\\ # and\\nmore ',
    'a{path="# HELP b no"} 1',
    '  # \tTYPE\ta \tCounter\r',
    'b 1 # TYPE b gauge',
    '#TYPE c gauge',
    '# UNIT a seconds',
    '# TYPE d strange',
    '# just said',
    '# HELP',
    '# HELP "e f" Zürich',
    '# HELP g',
    '##',
    '# TYPE h gauge',
  ].join('\n');
  const expected = [
    'a|counter|of "a": \\ # and\nmore|seconds',
    'd|-||',
    'e f|-|Zürich|',
    'g|-||',
    'h|gauge||',
  ];
  for (let cut = 1; cut <= text.length + 3; cut++) {
    assert.deepEqual(toldOf(text, cut), expected, `cut each ${cut} bytes`);
  }
});

test('a comment that never ends is let go', () => {
  const long = `# HELP a ${'x'.repeat(200_000)}\n# HELP b short`;
  assert.deepEqual(toldOf(long, 1_000), ['b|-|short|']);
});
