/** What the tests of this room share: texts that are parsed as files, and what is wrong with them. */
import assert from 'node:assert/strict';
import { ConfigError, type ConfigRole, parseConfig } from './config.ts';

/** Of a process that is a part of a cluster. */
export const inCluster = 'discovery: {type: tsdb_cluster, tsdbCluster: {endpoints: ["etcd:2379"]}}';

export function parse(
  text: string | readonly string[],
  environment: Record<string, string> = {},
  role: ConfigRole = 'node',
): ReturnType<typeof parseConfig> {
  const texts = typeof text === 'string' ? [text] : text;
  const files = texts.map((one, index) => ({ path: `file${index + 1}.yml`, text: one }));
  return parseConfig(files, role, environment);
}

export function problemsOf(...given: Parameters<typeof parse>): readonly string[] {
  try {
    parse(...given);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.problems;
  }
  assert.fail('the configuration was accepted');
}
