/** Text for people at a terminal: log records as lines, and whatever else quotes names of others. */

/**
 * One record as text: time, level, message, then the fields as `key=value`; a stack trace follows
 * on lines of its own. What would steer a terminal is escaped, for what a record quotes may be hostile.
 * @param json a record as pino writes it
 */
export function logText(json: string): string {
  const { level, time, msg, stack, ...fields } = JSON.parse(json) as Record<string, unknown>;
  let line = `${text(time)} ${text(level).toUpperCase().padEnd(5)} ${escaped(text(msg))}`;
  for (const [key, value] of Object.entries(fields)) {
    // Of all records of the process, so it tells nothing here.
    if (key !== 'service') line += ` ${escaped(key)}=${valueText(value)}`;
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

/**
 * What a terminal obeys or a reader cannot see: control characters (C0, DEL, C1, among them U+009B, which
 * begins sequences as ESC does), marks that turn the direction of text around, separators of lines and
 * paragraphs, and halves of surrogate pairs.
 */
const steering = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Cs}]/gu;
const steeringButLines = /[\p{Zl}\p{Zp}\p{Bidi_Control}\p{Cs}]|(?![\n\t])\p{Cc}/gu;
/** Of JSON, in which these stand in strings alone. */
const steeringInJson = /[\u007f-\u009f\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

const escapeOf = (character: string): string =>
  `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`;

const escaped = (value: string): string => value.replaceAll(steering, escapeOf);

/** Text of several lines for a terminal: what would steer it is escaped, newlines and tabs stay. */
export function terminalText(value: string): string {
  return value.replaceAll(steeringButLines, escapeOf);
}

/** A line of JSON with the same meaning, which may be shown at a terminal as it is. */
export function terminalJson(line: string): string {
  return line.replaceAll(steeringInJson, escapeOf);
}
