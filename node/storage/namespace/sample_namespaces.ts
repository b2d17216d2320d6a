/**
 * Which namespaces of samples a writer has to have heard of: it writes each row to all that are READY, and one that knows
 * fewer would leave a row out of one that reads rely on (#cluster/namespaces/samples.ts).
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import type { NamespaceRegistry } from '#cluster/namespaces/namespaces.ts';
import { readySamples } from '#cluster/namespaces/samples.ts';

export class SampleNamespaces {
  /** Of the registry that this node has adopted, and the lineage of the store that it is of. */
  revision = 0;
  lineageId = '';
  #ready: ReadonlySet<string> = new Set();
  /** The first revision, as far as is known, that has all that are READY. */
  #since = 0;

  /** The registry that the node has adopted. */
  note(registry: NamespaceRegistry, revision: number, lineageId: string): void {
    const ready = new Set(
      readySamples(registry).map((namespace) => `${namespaceNumber(namespace)} ${namespace.name}`),
    );
    const isMore = !ready.isSubsetOf(this.#ready);
    // After a start it is not known since when.
    if (isMore || lineageId !== this.lineageId) this.#since = revision;
    this.#ready = ready;
    this.revision = revision;
    this.lineageId = lineageId;
  }

  /**
   * @param revision of the registry that the writer goes by; not set, or 0, for one that names its namespace
   */
  isBehind(revision: number | undefined): boolean {
    return revision !== undefined && revision !== 0 && revision < this.#since;
  }
}
