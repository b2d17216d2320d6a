/** Which versions of etcd may follow each other: its data are read by the next minor version only. */

interface Version {
  readonly major: number;
  readonly minor: number;
}

/** Of an image's tag, or as etcd says it; null for what is none, as a digest. */
export function etcdVersionOf(text: string): Version | null {
  const match = /^(?:.*:)?v?(\d+)\.(\d+)\.\d+[^/:]*$/.exec(text);
  return match === null ? null : { major: Number(match[1]), minor: Number(match[2]) };
}

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
    if (next.major === now.major && (step === 0 || step === 1)) continue;
    return `etcd ${text} is followed by ${now.major}.${now.minor} or ${now.major}.${now.minor + 1}, not by ${image}`;
  }
  return null;
}
