/**
 * A campaign: every attack once by itself, then several at once, until the time is over. Between
 * them nobody attacks for a while, so that what the others wait can be held against how they are
 * served on this machine in this hour.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../seeded_random.ts';
import type { Arena } from './arena.ts';
import type { PlannedAttack } from './attacker.ts';
import { CampaignReport } from './report.ts';

export interface CampaignOptions {
  readonly seconds: number;
  readonly seed: number;
  /** Of the attacks, one at least. */
  readonly names: readonly string[];
}

/** How long one attack goes on by itself, unless the campaign is too short for that. */
const soloSecondsMax = 15;
const soloSecondsMin = 1;
/** Of the campaign's time, for attacks by themselves. */
const soloShare = 0.5;
const aloneSecondsMax = 20;
const aloneShare = 0.1;
/** Attacks go on for so long, and then nobody attacks. */
const attackedSecondsMax = 180;
const togetherMax = 4;
const togetherSecondsMax = 20;
const settleMillis = 1000;
/** Before the others are measured alone. */
const restMillis = 2000;
const severalName = 'several at once';

/** @param report takes a line of what happens */
export async function runCampaign(
  arena: Arena,
  { seconds, seed, names }: CampaignOptions,
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<CampaignReport> {
  const random = new SeededRandom(seed);
  const solos = shuffled(names, random);
  const soloSeconds = clamp((seconds * soloShare) / solos.length, soloSecondsMin, soloSecondsMax);
  const aloneSeconds = Math.min(aloneSecondsMax, Math.max(1, (seconds * aloneShare) / 2));
  const begin = performance.now();
  const isOver = (): boolean =>
    signal.aborted || !arena.victim.isRunning || performance.now() - begin >= seconds * 1000;
  const result = new CampaignReport();
  const alone = async (): Promise<void> => {
    if (performance.now() - begin > restMillis) await delay(restMillis);
    const observation = await arena.alone(aloneSeconds);
    result.noteAlone(observation);
    report(result.lineOf('alone', observation));
  };
  const attacked = async (name: string, planned: readonly PlannedAttack[]): Promise<void> => {
    const observation = await arena.attacked(planned, settleMillis);
    result.noteAttacked(name, observation);
    const told = name === severalName ? planned.map((each) => each.name).join(' + ') : name;
    report(result.lineOf(told, observation));
    for (const problem of observation.problems) report(`  ${problem}`);
  };
  await alone();
  const attackedMillisMax = 1000 * Math.min(attackedSecondsMax, 5 * aloneSeconds);
  let attackedSince = performance.now();
  while (!isOver()) {
    if (performance.now() - attackedSince > attackedMillisMax) {
      await alone();
      attackedSince = performance.now();
    }
    const solo = solos.pop();
    if (solo !== undefined) {
      await attacked(solo, [{ name: solo, seed: random.u32(), seconds: soloSeconds }]);
      continue;
    }
    const count = Math.min(names.length, 2 + random.below(togetherMax - 1));
    const planned = shuffled(names, random)
      .slice(0, count)
      .map((name) => ({
        name,
        seed: random.u32(),
        seconds: 2 + random.fraction() * (togetherSecondsMax - 2),
      }));
    await attacked(count === 1 ? planned[0]!.name : severalName, planned);
  }
  if (arena.victim.isRunning) await alone();
  return result;
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}

function shuffled(names: readonly string[], random: SeededRandom): string[] {
  const rest = [...names];
  const result: string[] = [];
  while (rest.length > 0) result.push(...rest.splice(random.below(rest.length), 1));
  return result;
}
