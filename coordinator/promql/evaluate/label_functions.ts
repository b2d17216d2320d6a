/** label_replace and label_join. */
import { isDear } from '#lib/regexp/regexp.ts';
import { executionError } from '../parse/errors.ts';
import type { Context } from '../rows/context.ts';
import { Labels } from '../rows/labels.ts';
import { labelsUnits } from '../rows/paced.ts';
import { compileMatcherRegexp } from '../parse/matcher.ts';

/** Changes the labels of all series, giving way. */
export type ChangeLabels = (all: readonly Labels[]) => Promise<Labels[]>;

/** Of a label value: it is copied, sorted and made into a key. */
const unitsPerCharacter = 2;

/** UTF-8 names are valid; the empty one is not. */
function checkLabelName(name: string, where: string): void {
  if (name === '' || !name.isWellFormed()) {
    throw executionError(`invalid ${where} label name in label function: ${JSON.stringify(name)}`);
  }
}

/** @param texts destination, replacement, source, regexp */
export function labelReplacer(texts: readonly string[], context: Context): ChangeLabels {
  const [destination, replacement, source, pattern] = texts as [string, string, string, string];
  const regexp = compileMatcherRegexp(pattern, (reason) => {
    throw executionError(`invalid regular expression in label_replace(): ${reason}`);
  });
  checkLabelName(destination, 'destination');
  const { aside, pacer } = context;
  return (all) =>
    changed(all, context, async (labels) => {
      const text = labels.get(source);
      if (pacer.spend(regexp.units(text.length, true))) await pacer.pause();
      const value = isDear(regexp, text.length, true)
        ? await pacer.work.outside(
            aside.run({ kind: 'replace', pattern, text, template: replacement }, pacer.work),
          )
        : regexp.replace(text, replacement);
      return value === null ? null : { name: destination, value };
    });
}

/** @param texts destination, separator, sources */
export function labelJoiner(texts: readonly string[], context: Context): ChangeLabels {
  const [destination, separator, ...sources] = texts as [string, string, ...string[]];
  checkLabelName(destination, 'destination');
  for (const source of sources) checkLabelName(source, 'source');
  return (all) =>
    changed(all, context, (labels) => ({
      name: destination,
      value: sources.map((source) => labels.get(source)).join(separator),
    }));
}

interface NewLabel {
  readonly name: string;
  readonly value: string;
}

async function changed(
  all: readonly Labels[],
  { pacer }: Context,
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
    const units = labelsUnits + unitsPerCharacter * (label?.value.length ?? 0);
    if (pacer.spend(units)) await pacer.pause();
  }
  return results;
}
