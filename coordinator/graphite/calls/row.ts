/** A function of the query language, as the table has it. */
import type { TimeContext } from '../time/attime.ts';
import type { Arguments } from './arguments.ts';
import type { Call } from './call.ts';
import type { Parameter } from './parameters.ts';
import type { Result, Window } from './window.ts';

/** As clients sort functions. */
export type Group =
  | 'Alias'
  | 'Calculate'
  | 'Combine'
  | 'Filter Data'
  | 'Filter Series'
  | 'Graph'
  | 'Sorting'
  | 'Special'
  | 'Transform';

export interface FunctionRow {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly group: Group;
  readonly description: string;
  readonly parameters: readonly Parameter[];
  /** Its name may be given to functions that group, in place of that of a reducer. */
  readonly isAggregator: boolean;
  /**
   * The windows for which its series are wanted, as far as they are known before any is read; null for the
   * call's own.
   */
  readonly windows:
    | ((args: Arguments, window: Window, time: TimeContext) => readonly Window[])
    | null;
  readonly evaluate: (call: Call) => Promise<Result>;
}

type Rest = Partial<Pick<FunctionRow, 'aliases' | 'isAggregator' | 'windows'>>;

export function functionRow(
  group: Group,
  name: string,
  description: string,
  parameters: readonly Parameter[],
  evaluate: FunctionRow['evaluate'],
  rest: Rest = {},
): FunctionRow {
  return {
    name,
    aliases: [],
    group,
    description,
    parameters,
    isAggregator: false,
    windows: null,
    evaluate,
    ...rest,
  };
}
