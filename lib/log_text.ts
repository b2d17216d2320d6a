/** Log records as lines for people at a terminal. */

/**
 * One record as text: time, level, message, then the fields as `key=value`; a stack trace follows
 * on lines of its own. Control characters are escaped, for what a record quotes may be hostile to a
 * terminal.
 * @param json a record as pino writes it
 */
export function logText(json: string): string {
  const { level, time, msg, stack, ...fields } = JSON.parse(json) as Record<string, unknown>;
  let line = `${text(time)} ${text(level).toUpperCase().padEnd(5)} ${escaped(text(msg))}`;
  for (const [key, value] of Object.entries(fields)) {
    // Of all records of the process, so it tells nothing here.
    if (key !== 'service') line += ` ${key}=${valueText(value)}`;
  }
  if (typeof stack === 'string') {
    for (const frame of stack.split('\n')) line += `\n    ${escaped(frame)}`;
  }
  return `${line}\n`;
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Bare when a reader can tell where it ends. */
function valueText(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"'=\p{C}]+$/u.test(value)) return value;
  return escaped(JSON.stringify(value));
}

const escaped = (value: string): string =>
  value.replaceAll(/\p{Cc}/gu, (character) => {
    const code = character.codePointAt(0)!;
    return `\\u${code.toString(16).padStart(4, '0')}`;
  });
