/**
 * Results of scenarios in a file, by scenario, version of Kubernetes, and what was tested: a run goes
 * on where one before it has ended.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './kube.ts';

/** What the outcome of a scenario depends on. */
const tested = ['operator', 'crds', 'helm', 'node', 'coordinator', 'aggregator'];
const gitMillisMax = 10_000;

export interface Result {
  readonly scenario: string;
  readonly kubernetes: string;
  /** Of the folders that are tested. */
  readonly tree: string;
  readonly ok: boolean;
  readonly seconds: number;
  /** Of the operator to the API server. */
  readonly writes: number;
  readonly at: string;
}

/** Of the folders as they are, changes that are not committed included. */
export async function testedTree(): Promise<string> {
  const root = join(import.meta.dirname, '../..');
  const git = async (args: readonly string[]): Promise<string> => {
    const { code, output } = await run('git', ['-C', root, ...args], { millisMax: gitMillisMax });
    if (code !== 0) throw new Error(`git ${args.join(' ')}: ${output}`);
    return output;
  };
  const trees = await git(['rev-parse', ...tested.map((folder) => `HEAD:${folder}`)]);
  const changes = await git(['diff', 'HEAD', '--', ...tested]);
  const hash = await run('git', ['-C', root, 'hash-object', '--stdin'], {
    millisMax: gitMillisMax,
    input: trees + changes,
  });
  return hash.output.trim().slice(0, 12);
}

export class Report {
  readonly #path: string | null;
  readonly #results: Result[];

  /** @param path null for one that is only printed */
  constructor(path: string | null) {
    this.#path = path;
    this.#results =
      path !== null && existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Result[]) : [];
  }

  /** Whether it has succeeded already. */
  has(scenario: string, kubernetes: string, tree: string): boolean {
    return this.#results.some(
      (one) =>
        one.ok && one.scenario === scenario && one.kubernetes === kubernetes && one.tree === tree,
    );
  }

  /** The last result counts. */
  add(result: Result): void {
    const { scenario, kubernetes, tree } = result;
    const same = this.#results.findIndex(
      (one) => one.scenario === scenario && one.kubernetes === kubernetes && one.tree === tree,
    );
    if (same >= 0) this.#results.splice(same, 1);
    this.#results.push(result);
    if (this.#path === null) return;
    writeFileSync(`${this.#path}.part`, `${JSON.stringify(this.#results, null, 2)}\n`);
    renameSync(`${this.#path}.part`, this.#path);
  }

  /** Scenario, seconds, writes: of this version and tree. */
  table(kubernetes: string, tree: string): string {
    const rows = this.#results
      .filter((one) => one.kubernetes === kubernetes && one.tree === tree)
      .sort((a, b) => (a.scenario < b.scenario ? -1 : 1));
    const lines = rows.map(
      ({ scenario, ok, seconds, writes }) =>
        `${scenario.padEnd(32)} ${ok ? 'ok    ' : 'not ok'} ${seconds.toFixed(0).padStart(7)} ${String(writes).padStart(7)}`,
    );
    const head = `${'scenario'.padEnd(32)}        seconds  writes`;
    return [head, ...lines].join('\n');
  }
}
