/**
 * The strangers: a process that carries out attacks, several at once when it is told so. On a real
 * network it would have processors of its own, so here it gives way to the victim and to the others.
 */
import { constants, setPriority } from 'node:os';
import { messageOf } from '#lib/errors.ts';
import { attackNamed } from './all.ts';
import type { FromAttacker, ToAttacker } from './attacker.ts';

setPriority(constants.priority.PRIORITY_LOW);

process.on('message', ({ attacks, target }: ToAttacker) => {
  void Promise.all(
    attacks.map(async ({ name, seed, seconds }) => {
      try {
        const answers = await attackNamed(name).run(target, seed, seconds);
        return { name, answers: answers.toString(), error: null };
      } catch (error) {
        return { name, answers: '', error: messageOf(error) };
      }
    }),
  ).then((done: FromAttacker) => process.send!(done));
});
process.once('disconnect', () => process.exit(0));
