/** label_replace and label_join. */
import { withRegexps } from '#engine/aside/regexps.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { type AnchoredRegexp, isDearToReplace } from '#lib/regexp/regexp.ts';
import { tagsBytesMax } from '#lib/tags.ts';
import { executionError } from '../words/errors.ts';
import { quoted } from '../words/literals.ts';
import type { Context } from '../rows/context.ts';
import { Labels } from '../rows/labels.ts';
import { labelsUnits, namesUnits } from '../rows/paced.ts';

/** Changes the labels of all series, giving way. */
export type ChangeLabels = (all: readonly Labels[]) => Promise<Labels[]>;

/** Of a label value: it is copied, sorted and made into a key. */
const unitsPerCharacter = 2;

/** @throws {PromqlError} when it is no value of a label */
function checkLength(length: number, where: string): void {
  if (length <= tagsBytesMax) return;
  throw executionError(
    `label value of ${where} is longer than ${tagsBytesMax} characters: ${length}`,
  );
}

/** UTF-8 names are valid; the empty one is not. */
function checkLabelName(name: string, where: string, call: string): void {
  if (name === '' || !name.isWellFormed()) {
    throw executionError(`invalid ${where} label name in ${call}(): ${name}`);
  }
}

/** @param texts destination, replacement, source, regexp */
export async function labelReplacer(
  texts: readonly string[],
  context: Context,
): Promise<ChangeLabels> {
  const [destination, replacement, source, pattern] = texts as [string, string, string, string];
  const regexp = await compiled(pattern, context);
  checkLabelName(destination, 'destination', 'label_replace');
  const { aside, pacer } = context;
  return (all) =>
    changed(all, context, labelsUnits, async (labels) => {
      const text = labels.get(source);
      const units = regexp.replaceUnits(text.length, replacement);
      if (pacer.spend(units)) await pacer.pause();
      const value = isDearToReplace(regexp, text.length, replacement)
        ? await pacer.work.outside(
            aside.run({ kind: 'replace', pattern, text, template: replacement }, pacer.work),
          )
        : regexp.replace(text, replacement);
      return value === null ? null : { name: destination, value };
    });
}

function compiled(pattern: string, { aside, pacer }: Context): Promise<AnchoredRegexp> {
  return withRegexps({ work: pacer.work, aside }, (regexps) => {
    if (!pattern.isWellFormed()) {
      throw executionError(`invalid regular expression in label_replace(): ${quoted(pattern)}`);
    }
    try {
      return regexps.compile(pattern);
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      throw executionError(`invalid regular expression in label_replace(): ${messageOf(error)}`);
    }
  });
}

/** @param texts destination, separator, sources */
export async function labelJoiner(
  texts: readonly string[],
  context: Context,
): Promise<ChangeLabels> {
  const [destination, separator, ...sources] = texts as [string, string, ...string[]];
  for (const source of sources) checkLabelName(source, 'source', 'label_join');
  checkLabelName(destination, 'destination', 'label_join');
  return (all) =>
    changed(all, context, namesUnits(sources), (labels) => {
      const values = valuesOf(labels, sources);
      const between = separator.length * Math.max(0, values.length - 1);
      checkLength(
        values.reduce((sum, { length }) => sum + length, between),
        'label_join()',
      );
      return { name: destination, value: values.join(separator) };
    });
}

/** More labels are not looked for one by one. */
const soughtMax = 16;

function valuesOf(labels: Labels, names: readonly string[]): string[] {
  if (names.length <= soughtMax) return names.map((name) => labels.get(name));
  const values = new Map(labels.tags.map(({ name, value }) => [name, value]));
  return names.map((name) => values.get(name) ?? '');
}

interface NewLabel {
  readonly name: string;
  readonly value: string;
}

async function changed(
  all: readonly Labels[],
  { pacer }: Context,
  unitsOfOne: number,
  labelOf: (labels: Labels) => NewLabel | null | Promise<NewLabel | null>,
): Promise<Labels[]> {
  const results: Labels[] = [];
  for (const labels of all) {
    const found = labelOf(labels);
    const label = found instanceof Promise ? await found : found;
    if (label === null) results.push(labels);
    else {
      if (pacer.take(labels.bytesWith(label.name, label.value))) await pacer.room();
      results.push(labels.with(label.name, label.value));
    }
    const units = unitsOfOne + unitsPerCharacter * (label?.value.length ?? 0);
    if (pacer.spend(units)) await pacer.pause();
  }
  return results;
}
