/** Commands of OpenTSDB's telnet: `put metric time value tag=value …` becomes a line of Prometheus' text, others are answered. */
import { plainMetricName, plainTagName } from '../ingest/plain_names.ts';
import { millisOfText, valueOfText } from './point.ts';

/** Longest part of a command that an answer has. */
const shownMax = 100;

/** What came of a command. */
export interface Command {
  /** With its end; '' for none. */
  readonly line: string;
  /** With its end; '' for none. */
  readonly answer: string;
  /** Why it is refused; '' when it is not. */
  readonly problem: string;
  /** The client wants to end. */
  readonly isEnd: boolean;
}

const nothing: Command = { line: '', answer: '', problem: '', isEnd: false };

/** @param version of what answers */
export function readCommand(text: string, version: string): Command {
  const words = text.split(/[ \t]+/).filter((word) => word !== '');
  const [name] = words;
  switch (name) {
    case undefined:
      return nothing;
    case 'put':
      return put(words, text);
    case 'version':
      return { ...nothing, answer: `net.opentsdb.tools 2.4.0 built at revision tsdb-${version}\n` };
    case 'help':
      return { ...nothing, answer: 'available commands: put version help exit\n' };
    case 'exit':
      return { ...nothing, isEnd: true };
    default: {
      const problem = `unknown command: ${shown(name)}`;
      return { ...nothing, problem, answer: `${problem}.  Try \`help'.\n` };
    }
  }
}

function put([, metric, time, value, ...tags]: readonly string[], text: string): Command {
  const refused = (reason: string): Command => {
    const problem = `put: illegal argument: ${reason}`;
    return { ...nothing, problem, answer: `${problem}\n` };
  };
  if (metric === undefined || time === undefined || value === undefined) {
    return refused(`not enough arguments (metric, time and value expected): ${shown(text)}`);
  }
  if (text.includes('\ufffd')) return refused(`the text is not UTF-8: ${shown(text)}`);
  const millis = millisOfText(time);
  if (millis === null) {
    return refused(`time: not seconds or milliseconds: ${shown(time)}`);
  }
  if (valueOfText(value) === null) return refused(`value: not a finite number: ${shown(value)}`);
  const labels = [quoted(plainMetricName(metric))];
  for (const tag of tags) {
    const equals = tag.indexOf('=');
    if (equals < 1 || equals === tag.length - 1) {
      return refused(`tag: not a name and a value with = between them: ${shown(tag)}`);
    }
    labels.push(`${quoted(plainTagName(tag.slice(0, equals)))}=${quoted(tag.slice(equals + 1))}`);
  }
  return { ...nothing, line: `{${labels.join()}} ${value} ${millis}\n` };
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

function shown(text: string): string {
  return text.length > shownMax ? `${text.slice(0, shownMax)}…` : text;
}
