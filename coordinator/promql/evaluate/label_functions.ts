/** label_replace and label_join. */
import { executionError } from '../parse/errors.ts';
import { Labels } from '../rows/labels.ts';
import { compileMatcherRegexp } from '../parse/matcher.ts';

/** UTF-8 names are valid; the empty one is not. */
function checkLabelName(name: string, where: string): void {
  if (name === '' || !name.isWellFormed()) {
    throw executionError(`invalid ${where} label name in label function: ${JSON.stringify(name)}`);
  }
}

/** @param texts destination, replacement, source, regexp */
export function labelReplacer(texts: readonly string[]): (labels: Labels) => Labels {
  const [destination, replacement, source, pattern] = texts as [string, string, string, string];
  const regexp = compileMatcherRegexp(pattern, (reason) => {
    throw executionError(`invalid regular expression in label_replace(): ${reason}`);
  });
  checkLabelName(destination, 'destination');
  return (labels) => {
    const value = regexp.replace(labels.get(source), replacement);
    return value === null ? labels : labels.with(destination, value);
  };
}

/** @param texts destination, separator, sources */
export function labelJoiner(texts: readonly string[]): (labels: Labels) => Labels {
  const [destination, separator, ...sources] = texts as [string, string, ...string[]];
  checkLabelName(destination, 'destination');
  for (const source of sources) checkLabelName(source, 'source');
  return (labels) =>
    labels.with(destination, sources.map((source) => labels.get(source)).join(separator));
}
