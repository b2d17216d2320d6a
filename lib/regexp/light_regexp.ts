/** Regexps of whole texts for where neither their compilation nor a test can be done aside: what holds up others is refused. */
import { badRequest, shownText } from '../errors.ts';
import { type AnchoredRegexp, isDear, RegexpCompiler } from './regexp.ts';

export class LightRegexp {
  readonly #regexp: AnchoredRegexp;

  /** @throws {TsdbError} BAD_REQUEST when it is wrong, or takes long to compile */
  constructor(pattern: string) {
    const compiler = new RegexpCompiler(pattern);
    while (compiler.read() !== null) continue;
    if (compiler.isDear) {
      throw badRequest(`cannot compile regexp: takes too long: ${shownText(pattern)}`);
    }
    this.#regexp = compiler.finish();
  }

  /**
   * What a test of a text of so many characters usually takes, in units of work: to be asked before it is made.
   * @throws {TsdbError} BAD_REQUEST when it may hold up others
   */
  units(length: number): number {
    if (!isDear(this.#regexp, length)) return this.#regexp.units(length);
    throw badRequest(
      `cannot match regexp: takes too long for a text of ${length} characters: ${shownText(this.#regexp.pattern)}`,
    );
  }

  test(text: string): boolean {
    return this.#regexp.test(text);
  }
}
