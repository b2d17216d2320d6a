/** All scenarios, in the order in which they are played. */
import { addresses } from './addresses.ts';
import { aggregators } from './aggregators.ts';
import { apiFaults } from './api_faults.ts';
import { creation } from './creation.ts';
import { byHelm, deletion } from './deletion.ts';
import { etcd } from './etcd.ts';
import { repositories } from './gitops.ts';
import { losses } from './losses.ts';
import { namespaces } from './namespaces.ts';
import { manyOperators } from './operators_many.ts';
import { overlays } from './overlays.ts';
import { rollouts } from './rollouts.ts';
import { scaling } from './scaling.ts';
import type { Scenario } from './scenario.ts';
import { soaks } from './soak.ts';
import { specs } from './specs.ts';

export const scenarios: readonly Scenario[] = [
  ...creation,
  ...specs,
  ...addresses,
  ...scaling,
  ...losses,
  ...rollouts,
  ...overlays,
  ...apiFaults,
  ...manyOperators,
  ...namespaces,
  ...aggregators,
  ...etcd,
  ...repositories,
  ...deletion,
  ...soaks,
  ...byHelm,
];
