/** When majority reads of all samples were answered: where a quorum is away for long enough, rows expire before anybody can make something of them. */

/** In such a stretch whoever makes rollups gets to it, also when it has to take over first. */
const enoughMillis = 90_000;

export class ReadLog {
  readonly #reads: { readonly millis: number; readonly isAnswered: boolean }[] = [];

  note(millis: number, isAnswered: boolean): void {
    this.#reads.push({ millis, isAnswered });
  }

  /** Whether all reads were answered for long enough in a time. */
  wereAnswered(fromMillis: number, toMillis: number): boolean {
    let since: number | null = null;
    for (const { millis, isAnswered } of this.#reads) {
      if (millis < fromMillis) continue;
      if (millis > toMillis) break;
      if (!isAnswered) since = null;
      else since ??= millis;
      if (since !== null && millis - since >= enoughMillis) return true;
    }
    return false;
  }
}
