/** Names that become parts of keys and folders: instance IDs, groups, hosts, namespaces. */
import { isHostAndPort } from '#lib/env/host_and_port.ts';
import { nameLengthMax } from './limits.ts';

/** Why a text cannot be this name, or null: "id is empty", "id has a character …". */
export function nameProblem(field: string, name: string): string | null {
  if (name === '') return `${field} is empty`;
  if (name.length > nameLengthMax) {
    return `${field} is longer than ${nameLengthMax} characters: ${name.slice(0, 40)}…`;
  }
  // oxlint-disable-next-line no-control-regex -- control characters are what is refused
  if (/[\u0000-\u0020\u007f]/.test(name)) {
    return `${field} has a space or control character: ${JSON.stringify(name)}`;
  }
  return null;
}

/** Why a text cannot be the endpoint of an instance, or null. */
export function endpointProblem(field: string, endpoint: string): string | null {
  const problem = nameProblem(field, endpoint);
  if (problem !== null) return problem;
  if (isHostAndPort(endpoint)) return null;
  return `${field} is not host:port: ${JSON.stringify(endpoint)}`;
}

/**
 * Why a text cannot name a namespace, or null. Nodes have a folder for each namespace, and the
 * key-value store a path for each environment and zone, so a name is one plain path segment.
 */
export function segmentProblem(field: string, name: string): string | null {
  const problem = nameProblem(field, name);
  if (problem !== null) return problem;
  if (!/^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/.test(name)) {
    return `${field} does not match [A-Za-z0-9_][A-Za-z0-9_.:-]*: ${JSON.stringify(name)}`;
  }
  return null;
}
