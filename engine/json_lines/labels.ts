/** The labels of a line as an object: the metric of an exported one, where an empty value is none, or the tags of a row. */
import { TsdbError } from '#lib/errors.ts';
import { readJson, keyTwiceText } from '#lib/json/text.ts';
import { encodeTags, type Tag, type TagRules, tagsCountMax, tagsProblem } from '#lib/tags.ts';

/** The field that has them. */
export type LabelsField = 'metric' | 'tags';

/** @returns canonical tags, or why they are none */
export function tagsOfLabels(
  json: Uint8Array,
  field: LabelsField,
  rules: TagRules,
): Uint8Array | string {
  try {
    const { value, twice } = readJson(json, { valuesMax: tagsCountMax });
    for (const key of twice.values()) return `${field}: ${keyTwiceText(key)}`;
    const tags: Tag[] = [];
    for (const [name, label] of Object.entries(value as object)) {
      if (typeof label !== 'string') return `${field}: ${JSON.stringify(name)} is no text`;
      if (!name.isWellFormed() || !label.isWellFormed()) {
        return `${field}: not Unicode, a half of a surrogate pair alone: ${JSON.stringify(name)}`;
      }
      if (label !== '' || field === 'tags') tags.push({ name, value: label });
    }
    const problem = tagsProblem(tags, rules);
    return problem === null ? encodeTags(tags) : `${field}: ${problem}`;
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    return `${field}: ${error.message.replace('the request body', 'it')}`;
  }
}
