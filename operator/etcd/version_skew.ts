/** Which versions of etcd may follow each other: its data are read by the next minor version only. */

interface Version {
  readonly major: number;
  readonly minor: number;
  readonly patch: number;
}

/** Of an image's tag, or as etcd says it; null for what is none, as a digest. */
export function etcdVersionOf(text: string): Version | null {
  const match = /^(?:.*:)?v?(\d+)\.(\d+)\.(\d+)[^/:]*$/.exec(text);
  if (match === null) return null;
  return { major: Number(match[1]), minor: Number(match[2]), patch: Number(match[3]) };
}

/**
 * The first patch of 3.5 from which 3.6 can follow: by what earlier ones wrote, 3.6 finds members that
 * were removed and learners that were promoted long ago (etcd's upgrade guide to 3.6).
 */
const lastPatchOf35 = 26;

/**
 * @param image that members are to have
 * @param versions that they have
 * @returns why they cannot have it; null when they can, or when nobody can tell
 */
export function etcdSkew(image: string, versions: readonly string[]): string | null {
  const next = etcdVersionOf(image);
  if (next === null) return null;
  for (const text of versions) {
    const now = etcdVersionOf(text);
    if (now === null) continue;
    const step = next.minor - now.minor;
    const isEarly = now.major === 3 && now.minor === 5 && now.patch < lastPatchOf35;
    if (isEarly && next.major === 3 && step === 1) {
      return `etcd ${text} is followed by 3.5.${lastPatchOf35} or a later 3.5, and ${image} comes after that: it would find members that were removed before`;
    }
    if (next.major === now.major && (step === 0 || step === 1)) continue;
    return `etcd ${text} is followed by ${now.major}.${now.minor} or ${now.major}.${now.minor + 1}, not by ${image}`;
  }
  return null;
}
