/** All attacks, in the order of their subjects. */
import { agentAttacks } from './agents.ts';
import { answerAttacks } from './answers.ts';
import type { Attack } from './attack.ts';
import { bodyAttacks } from './bodies.ts';
import { browserAttacks } from './browsers.ts';
import { connectionAttacks } from './connections.ts';
import { graphiteAttacks } from './graphite.ts';
import { grpcAttacks } from './grpc.ts';
import { jsonLinesAttacks } from './json_lines.ts';
import { keyValueAttacks } from './key_value.ts';
import { otlpAttacks } from './otlp.ts';
import { parsingAttacks } from './parsing.ts';
import { queryAttacks } from './queries.ts';
import { regexpAttacks } from './regexps.ts';
import { requestAttacks } from './requests.ts';
import { ruleAttacks } from './rules.ts';
import { senderAttacks } from './senders.ts';
import { wrongAnswerAttacks } from './wrong_answers.ts';

export const attacks: readonly Attack[] = [
  ...browserAttacks,
  ...parsingAttacks,
  ...bodyAttacks,
  ...otlpAttacks,
  ...jsonLinesAttacks,
  ...agentAttacks,
  ...answerAttacks,
  ...queryAttacks,
  ...graphiteAttacks,
  ...regexpAttacks,
  ...ruleAttacks,
  ...connectionAttacks,
  ...senderAttacks,
  ...grpcAttacks,
  ...keyValueAttacks,
  ...wrongAnswerAttacks,
  ...requestAttacks,
];

/** @throws {RangeError} when there is none of that name */
export function attackNamed(name: string): Attack {
  const attack = attacks.find((each) => each.name === name);
  if (attack === undefined) throw new RangeError(`there is no attack "${name}"`);
  return attack;
}
