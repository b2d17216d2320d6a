/** What happens to machines, to what runs on them, and to the API server. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { condition, home, type Kube, run, waitFor } from './kube.ts';

const callMillisMax = 60_000;

/** Ids of the processes of a pod's containers, of this test cluster (lane.sh has another one). */
export function processesOf(pod: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name));
  const ours = pids.filter((pid) => {
    try {
      const variables = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
      return (
        variables.includes(`HOSTNAME=${pod}`) &&
        readFileSync(`/proc/${pid}/mountinfo`, 'utf8').includes(`${home}/`)
      );
    } catch {
      // It has ended.
      return false;
    }
  });
  return ours.map(Number);
}

/**
 * SIGKILL to every process of a pod, as when its machine fails: no grace and no word of farewell.
 */
export function killProcesses(pod: string): void {
  const pids = processesOf(pod);
  if (pids.length === 0) throw new Error(`no process of pod ${pod}`);
  killAll(pids);
}

/** SIGKILL to those that are still there. */
export function killAll(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

const pidOf = (part: string): number =>
  Number(readFileSync(join(home, 'run', `${part}.pid`), 'utf8'));

/** A program of up.sh, which a test has ended, runs again as it did. */
async function startAgain(part: string): Promise<void> {
  const script = join(home, 'run', `${part}.sh`);
  const { code, output } = await run('bash', [script], { millisMax: callMillisMax });
  if (code !== 0) throw new Error(`${part} does not start: ${output}`);
}

async function ended(pid: number): Promise<void> {
  await waitFor(`process ${pid} has ended`, callMillisMax, async () => {
    try {
      // A zombie has nothing left to do.
      return readFileSync(`/proc/${pid}/status`, 'utf8').includes('State:\tZ') ? null : 'it runs';
    } catch {
      return null;
    }
  });
}

/** The API server is killed, is away for so long, and is there again as another process. */
export async function restartApiServer(kube: Kube, awayMillis: number): Promise<void> {
  const pid = pidOf('apiserver');
  process.kill(pid, 'SIGKILL');
  await ended(pid);
  await delay(awayMillis);
  await startAgain('apiserver');
  await waitFor('API server is there again', 60_000, async () => {
    const { code, output } = await kube.kubectl(['get', '--raw', '/readyz']);
    return code === 0 ? null : output;
  });
}

/** A machine is gone with all that ran on it: its kubelet, its containers, its name. */
export async function loseMachine(kube: Kube, machine: string): Promise<void> {
  for (const part of ['kubelet', 'containerd'])
    process.kill(pidOf(`${machine}-${part}`), 'SIGKILL');
  const pods = JSON.parse(
    await kube.ok(['get', 'pods', '-A', '-o', 'json', `--field-selector=spec.nodeName=${machine}`]),
  ).items;
  for (const { metadata } of pods) for (const pid of processesOf(metadata.name)) kill(pid);
  await kube.ok(['delete', 'node', machine]);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

/** The machine that was lost is there again, with its disks; what ran on it is forgotten. */
export async function bringMachineBack(kube: Kube, machine: string): Promise<void> {
  await startAgain(`${machine}-containerd`);
  await delay(2_000);
  await startAgain(`${machine}-kubelet`);
  await machineIs(kube, machine, 'True');
}

async function machineIs(kube: Kube, machine: string, status: 'True' | 'Unknown'): Promise<void> {
  await waitFor(`machine ${machine} Ready ${status}`, 120_000, async () => {
    const ready = condition(await kube.get('node', machine, 'default'), 'Ready');
    return ready?.status === status ? null : `${ready?.status}: ${ready?.message}`;
  });
}

/** Its kubelet says nothing any more, and the containers go on. */
export async function silenceKubelet(kube: Kube, machine: string): Promise<void> {
  process.kill(pidOf(`${machine}-kubelet`), 'SIGSTOP');
  await machineIs(kube, machine, 'Unknown');
}

export async function resumeKubelet(kube: Kube, machine: string): Promise<void> {
  process.kill(pidOf(`${machine}-kubelet`), 'SIGCONT');
  await machineIs(kube, machine, 'True');
}

/** The same image under another tag, on every machine. */
export async function tagImage(image: string, as: string): Promise<void> {
  for (const machine of readdirSync(home).filter((name) => /^node\d+$/.test(name))) {
    const socket = join(home, machine, 'containerd.sock');
    const args = ['-a', socket, '-n', 'k8s.io', 'images', 'tag', '--force', image, as];
    const { code, output } = await run('ctr', args, { millisMax: callMillisMax });
    if (code !== 0) throw new Error(`ctr ${args.join(' ')}: ${output}`);
  }
}
