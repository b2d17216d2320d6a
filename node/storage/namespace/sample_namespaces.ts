/**
 * Which namespaces of samples a writer has to have heard of: it writes each row to all that are READY, and one that knows
 * fewer would leave a row out of one that reads rely on (#cluster/namespaces/samples.ts).
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import type { NamespaceRegistry } from '#cluster/namespaces/namespaces.ts';
import { readySamples, type RegistryVersion } from '#cluster/namespaces/samples.ts';
import type { WriteRequest } from '#cluster/node/service.ts';
import { TsdbError } from '#lib/errors.ts';
import { formatLevelNewest, resolutionsFormatLevel } from '#lib/format_level.ts';

type Writer = Pick<
  WriteRequest,
  'namespace' | 'namespacesRevision' | 'namespacesLineageId' | 'formatLevel'
>;

export class SampleNamespaces {
  /** Of the registry that this node has adopted, and the lineage of the store that it is of. */
  revision = 0;
  lineageId = '';
  #ready: ReadonlySet<string> = new Set();
  #names: ReadonlySet<string> = new Set();
  /** Of a store that was restored and awaits its approval; else as `lineageId`. */
  #storeLineageId = '';
  /** The first revision, as far as is known, that has all that are READY. */
  #since = 0;

  /** The registry that the node has adopted. */
  note(
    registry: NamespaceRegistry,
    { revision, lineageId }: RegistryVersion,
    storeLineageId: string,
  ): void {
    const all = readySamples(registry);
    const ready = new Set(
      all.map((namespace) => `${namespaceNumber(namespace)} ${namespace.name}`),
    );
    this.#names = new Set(all.map(({ name }) => name));
    this.#storeLineageId = storeLineageId;
    const isMore = !ready.isSubsetOf(this.#ready);
    // After a start it is not known since when.
    if (isMore || lineageId !== this.lineageId) this.#since = revision;
    this.#ready = ready;
    this.revision = revision;
    this.lineageId = lineageId;
  }

  /**
   * Whether the writer may have left out one that it has not heard of. One that goes by the store that was restored, before
   * its approval, has not: that takes all promises back (#cluster/namespaces/samples.ts).
   */
  isBehind({ namespacesRevision: revision = 0, namespacesLineageId }: Writer): boolean {
    // It names its namespace, or there is no other.
    if (revision === 0 || this.#ready.size < 2) return false;
    if (namespacesLineageId === this.lineageId) return revision < this.#since;
    return namespacesLineageId !== this.#storeLineageId;
  }

  /**
   * To be called once the cluster writes formats of level 4.
   * @throws {TsdbError} UNAVAILABLE for a writer that cannot say which namespaces it knows, where there are several of which
   *   it writes to one
   */
  checkRelease({ namespace, formatLevel = formatLevelNewest }: Writer): void {
    if (formatLevel >= resolutionsFormatLevel || this.#ready.size < 2) return;
    if (!this.#names.has(namespace)) return;
    throw new TsdbError(
      'UNAVAILABLE',
      `cannot write: the writer is of a release that knows formats up to level ${formatLevel}, and its rows may lack a namespace; the cluster writes level ${resolutionsFormatLevel}`,
    );
  }
}
