/** Texts as parts of regular expressions. */

/** An expression that takes this text alone. */
export function literalRegexp(text: string): string {
  return text.replace(/[\\.+*?()|[\]{}^$]/g, '\\$&');
}
