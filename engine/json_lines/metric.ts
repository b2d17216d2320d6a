/** The metric of a line: an object of labels, a label with an empty value being none. */
import { TsdbError } from '#lib/errors.ts';
import { readJson, keyTwiceText } from '#lib/json/text.ts';
import { encodeTags, type Tag, type TagRules, tagsCountMax, tagsProblem } from '#lib/tags.ts';

/** @returns canonical tags, or why they are none */
export function tagsOfMetric(json: Uint8Array, rules: TagRules): Uint8Array | string {
  try {
    const { value, twice } = readJson(json, { valuesMax: tagsCountMax });
    for (const key of twice.values()) return `metric: ${keyTwiceText(key)}`;
    const tags: Tag[] = [];
    for (const [name, label] of Object.entries(value as object)) {
      if (typeof label !== 'string') return `metric: ${JSON.stringify(name)} is no text`;
      if (!name.isWellFormed() || !label.isWellFormed()) {
        return `metric: not Unicode, a half of a surrogate pair alone: ${JSON.stringify(name)}`;
      }
      if (label !== '') tags.push({ name, value: label });
    }
    const problem = tagsProblem(tags, rules);
    return problem === null ? encodeTags(tags) : `metric: ${problem}`;
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    return `metric: ${error.message.replace('the request body', 'it')}`;
  }
}
