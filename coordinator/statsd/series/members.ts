/** Members of sets since the last flush. */

/** Characters of all members of all sets. */
const charactersMax: number = 64 << 20;
/** What a member takes beside its characters, about. */
const memberCharacters = 64;

/** What all sets have in common. */
export class MemberRoom {
  #characters = 0;

  /** @returns false when there is no room */
  take(member: string): boolean {
    const more = member.length + memberCharacters;
    if (this.#characters + more > charactersMax) return false;
    this.#characters += more;
    return true;
  }

  give(member: string): void {
    this.#characters -= member.length + memberCharacters;
  }
}

export class Members {
  readonly #room: MemberRoom;
  #members = new Set<string>();

  constructor(room: MemberRoom) {
    this.#room = room;
  }

  /** @returns false when there is no room for one that is not there */
  add(member: string): boolean {
    if (this.#members.has(member)) return true;
    if (!this.#room.take(member)) return false;
    this.#members.add(member);
    return true;
  }

  /** How many there are; they are forgotten. */
  takeCount(): number {
    const { size } = this.#members;
    for (const member of this.#members) this.#room.give(member);
    if (size > 0) this.#members = new Set();
    return size;
  }
}
