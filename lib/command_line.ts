/** What every command of the product understands: `--help` and `--version`. */

/**
 * The text that answers `--help` (`-h`) or `--version`, or null when neither is asked for.
 * @param product such as `tsdb-node`
 */
export function standardAnswer(
  args: readonly string[],
  product: string,
  usage: string,
  version: string,
): string | null {
  if (args.includes('--help') || args.includes('-h')) return usage;
  return args.includes('--version') ? `${product} ${version}` : null;
}
