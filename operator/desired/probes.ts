/**
 * When Kubernetes takes a process for dead, and how pods end. Alive is who answers at all: neither a
 * log that is replayed for an hour, nor etcd or a disk that do not answer, are cured by a restart,
 * which would only begin the replay anew.
 */

/** Until it first answers it may read a large folder, or wait for a slow disk. */
const startupSecondsMax = 3_600;
const startupPeriodSeconds = 2;
/**
 * A process that has answered, and then has not for five minutes, hangs. One on a machine that has no time for it answers now
 * and then, and a restart would only cost more of that.
 */
const silentPeriodSeconds = 10;
const silentTimesMax = 30;

/** @param path answers 200 as long as the process serves anything */
export function livenessProbes(path: string, port: number): object {
  const httpGet = { path, port, scheme: 'HTTP' };
  return {
    startupProbe: {
      httpGet,
      periodSeconds: startupPeriodSeconds,
      timeoutSeconds: 10,
      failureThreshold: startupSecondsMax / startupPeriodSeconds,
      successThreshold: 1,
    },
    livenessProbe: {
      httpGet,
      periodSeconds: silentPeriodSeconds,
      timeoutSeconds: 10,
      failureThreshold: silentTimesMax,
      successThreshold: 1,
    },
  };
}

/** Until every kube-proxy and load balancer has heard that the pod is no endpoint any more. */
const leaveSeconds = 5;
/** To end what is left after the last request. */
const marginSeconds = 10;

/** Requests go on coming until everybody has heard; those that came are answered. */
export const leaveFirst: object = { preStop: { sleep: { seconds: leaveSeconds } } };

/** @param requestMillisMax longest time that a request takes */
export function graceSecondsOf(requestMillisMax: number): number {
  return leaveSeconds + Math.ceil(requestMillisMax / 1000) + marginSeconds;
}
