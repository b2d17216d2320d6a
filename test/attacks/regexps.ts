/** Regular expressions of many states, over long values, and such that take long to compile. */
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span, type Target } from './attack.ts';
import { ask, askQuery, jsonWritePath, type Reply } from './http.ts';
import { noteTimed } from './queries.ts';

const valueLength = 60_000;
const valueCount = 20;

/** Long values of two letters, which no expression below finds where it could stop. */
async function loadValues({ ports: { coordinator } }: Target): Promise<void> {
  const random = new SeededRandom(1);
  const timestamp = Date.now() / 1000;
  const rows = Array.from({ length: valueCount }, () => {
    const v = Array.from({ length: valueLength }, () => random.pick(['a', 'b'])).join('');
    return { tags: { __name__: 'long', v }, timestamp, value: 1 };
  });
  await ask(coordinator, jsonWritePath, { body: JSON.stringify(rows) });
}

/** `\\p` in the text of a query is `\p` in the expression. */
const ofMatching: readonly string[] = [
  '(a+a+)+y',
  '(a?){100}y',
  '(a?){1000}y',
  '(a|b)*a(a|b){12}c',
  '(a|b)*a(a|b){900}c',
  `(a|b)*a(${'(a|b)'.repeat(10)}){900}c`,
  `(${'a?'.repeat(10)}){1000}y`,
  `${'.*a'.repeat(2000)}y`,
];

const ofCompiling: readonly string[] = [
  '(a|b|c|d)'.repeat(3000),
  Array.from({ length: 100_000 }, (_, i) => `a${i}`).join('|'),
  Array.from({ length: 50_000 }, (_, i) => `a${i}.*b`).join('|'),
  '(?i)\\\\p{L}'.repeat(2000),
  '[^\\\\p{L}]'.repeat(10_000),
  '('.repeat(100_000) + 'a' + ')'.repeat(100_000),
  `${'('.repeat(900)}a${')'.repeat(900)}+`,
  '((((x{10}){10}){10}){10}){10}',
];

const matching = (name: string, expressions: readonly string[]): Attack => ({
  name,
  subject: 'regexps',
  async run(target, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const span = new Span(seconds);
    await loadValues(target);
    const { httpNode } = target.ports;
    const asNode = (regexp: string): Promise<Reply> =>
      ask(httpNode, '/query', {
        body: JSON.stringify({
          namespace: 'default',
          query: { regexp: { field: 'v', regexp: regexp.replaceAll('\\\\', '\\') } },
          rangeStart: 0,
          rangeEnd: 9e9,
        }),
      });
    await keepDoing(span, 3, async () => {
      const regexp = random.pick(expressions);
      const way = random.below(4);
      const shown = `${['a matcher', 'a matcher', 'label_replace', '9002'][way]!} of ${regexp.slice(0, 40)}`;
      if (way === 3) answers.note((await asNode(regexp)).status);
      else if (way === 2) {
        const query = `label_replace(long,"a","$1","v","(${regexp})")`;
        noteTimed(answers, shown, await askQuery(target.ports, query));
      } else noteTimed(answers, shown, await askQuery(target.ports, `long{v=~"${regexp}"}`));
    });
    return answers;
  },
});

export const regexpAttacks: readonly Attack[] = [
  matching('expressions of many states', ofMatching),
  matching('expressions that take long to compile', ofCompiling),
];
