/** The aggregated namespace of a simulated cluster. */

export const windowsNamespace = 'windows';
export const windowMillis = 10_000;
/** Longer than any run. */
export const windowsRetentionMillis = 3_600_000;
