/**
 * How processes of servers are started, by `npm start` and in tests as by the Dockerfiles and the unit of systemd.
 *
 * Most of what a request leaves is garbage at once: a smaller young generation takes 60 MiB less and no more CPU
 * time. Left to itself V8 lets a small heap grow so little at times that it must be marked again as soon as that is
 * done: some 10 or some 140 times in 20 scrapes of a million series, as it happened. A heap that may double is marked
 * 20 times, always.
 */
export const serverFlags = ['--max-semi-space-size=4', '--heap-growing-percent=100'];

/**
 * Settings of glibc's malloc, which has bodies, answers and messages. By default it takes the size of each large block
 * that is freed as the least that it gets for itself from the system (128 KiB at the start): from then on bodies, up to megabytes of them, lie between
 * small blocks that stay, and what they took comes back to nobody.
 */
export const serverEnvironment = {
  MALLOC_MMAP_THRESHOLD_: String(128 << 10),
  MALLOC_TRIM_THRESHOLD_: String(16 << 20),
};
