/** Options of the tools of this folder. */
import { type ParseArgsConfig, parseArgs } from 'node:util';

const helpOption = { help: { type: 'boolean', short: 'h', default: false } } as const;

type WithHelp<Options extends ParseArgsConfig['options']> = {
  options: Options & typeof helpOption;
};

/**
 * The options' values. `--help` prints the usage and ends the process with 0; what is no option is
 * named and ends it with 2.
 */
export function toolOptions<const Options extends NonNullable<ParseArgsConfig['options']>>(
  usage: string,
  options: Options,
): ReturnType<typeof parseArgs<WithHelp<Options>>>['values'] {
  try {
    const { values } = parseArgs<WithHelp<Options>>({ options: { ...options, ...helpOption } });
    if (!(values as { readonly help: boolean }).help) return values;
    console.log(usage);
    process.exit(0);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usage}`);
    process.exit(2);
  }
}

/** Members of a list with commas; what is none of all is named and ends the process with 2. */
export function chosen<const T extends string>(given: string, all: readonly T[]): readonly T[] {
  return given.split(',').map((each) => {
    const found = all.find((one) => one === each);
    if (found !== undefined) return found;
    console.error(`${each} is none of ${all.join(', ')}`);
    return process.exit(2);
  });
}
