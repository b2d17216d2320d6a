/** A script is parsed, compiled, and evaluated as Graphite's targets are: all that it reads is asked for at once. */
import type { EvaluationContext } from '../../graphite/evaluate/context.ts';
import { evaluateTree } from '../../graphite/evaluate/evaluate.ts';
import type { Series } from '../../graphite/series/series.ts';
import { compileScript } from '../compile/compile.ts';
import { scriptRows } from '../functions/table.ts';
import { parseScript } from '../parse/parser.ts';

/** Rows of an answer: at `startSeconds + row * stepSeconds`. Whole seconds. */
export interface ScriptGrid {
  readonly startSeconds: number;
  readonly stepSeconds: number;
  /** At least one. */
  readonly rowCount: number;
}

/** Of a character, to parse it, in units of work. */
const characterUnits = 40;

const language = { functions: scriptRows, areTagsFixed: true } as const;

/**
 * The series of a script, on grids of their own where functions make such.
 * @throws {TsdbError} BAD_REQUEST with what is wrong in the script, and where; what storage throws
 */
export async function evaluateScript(
  text: string,
  { startSeconds, stepSeconds, rowCount }: ScriptGrid,
  context: Omit<EvaluationContext, 'fromSeconds' | 'untilSeconds'>,
): Promise<readonly Series[]> {
  const { work } = context;
  const script = parseScript(text);
  if (work.spend(characterUnits * text.length)) await work.pause();
  const tree = await compileScript(script, text, stepSeconds, work);
  return await evaluateTree(tree, language, {
    ...context,
    // Windows are open at their begin.
    fromSeconds: startSeconds - stepSeconds,
    untilSeconds: startSeconds + stepSeconds * (rowCount - 1),
  });
}
