/** The functions of Graphite's language, for clients that help to write targets. */
import { TsdbError, shownText } from '#lib/errors.ts';
import { jsonAnswer, type PlainHandler } from '../../http/http_api.ts';
import type { FunctionRow } from '../calls/row.ts';
import type { Parameter } from '../calls/parameters.ts';
import { functionRows } from '../functions/table.ts';

/** All by their names, aliases among them; with `grouped=1` by group. */
export const functionList: PlainHandler<null> = (_setup, { urlParameters }) => {
  const all = functionRows.flatMap((row) =>
    [row.name, ...row.aliases].map((name) => [name, described(row, name)] as const),
  );
  if (!/^(?:1|true)$/i.test(urlParameters.get('grouped') ?? '')) {
    return jsonAnswer(Object.fromEntries(all));
  }
  const groups: Record<string, Record<string, object>> = {};
  for (const [name, description] of all) (groups[description.group] ??= {})[name] = description;
  return jsonAnswer(groups);
};

/** One of them. */
export const functionDescription: PlainHandler<null> = (_setup, { pathParameters }) => {
  const name = pathParameters['name'] ?? '';
  const row = functionRows.find((each) => each.name === name || each.aliases.includes(name));
  if (row === undefined) throw new TsdbError('NOT_FOUND', `no such function: ${shownText(name)}`);
  return jsonAnswer(described(row, name));
};

function described({ group, description, parameters }: FunctionRow, name: string) {
  const form = parameters.map((parameter) => formOf(parameter)).join(', ');
  return {
    name,
    function: `${name}(${form})`,
    description,
    module: 'graphite.render.functions',
    group,
    params: parameters.map((parameter) => ({
      name: parameter.name,
      type: parameter.type,
      ...(parameter.isRequired ? { required: true } : {}),
      ...(parameter.isMultiple ? { multiple: true } : {}),
      ...(parameter.default === null ? {} : { default: parameter.default }),
      ...(parameter.options.length === 0 ? {} : { options: parameter.options }),
    })),
  };
}

/** As Python writes what a function takes. */
function formOf({ name, isRequired, isMultiple, default: byDefault }: Parameter): string {
  if (isMultiple) return `*${name}`;
  if (isRequired) return name;
  if (byDefault === null) return `${name}=None`;
  if (typeof byDefault === 'string') return `${name}='${byDefault}'`;
  if (typeof byDefault === 'boolean') return `${name}=${byDefault ? 'True' : 'False'}`;
  return `${name}=${byDefault}`;
}
