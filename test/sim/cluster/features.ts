/**
 * What a run may have beside the usual, or is held to, each by name, so that a campaign can leave out what is known
 * to fail until it is mended (open.txt).
 */
export const features = [
  'rewrites',
  'lost disks',
  'rolled-back disks',
  'damage',
  'read errors',
  'hung disks',
  'clocks',
  'restores',
  'copies',
  'namespaces',
  'deletions',
  'equality',
  'upgrade',
  'windows',
] as const;

export type Feature = (typeof features)[number];
