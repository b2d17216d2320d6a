/** The bits of the NaN that Prometheus calls normal; others tell something, as that of a stale marker does. */
export const prometheusNanLow = 1;
export const prometheusNanHigh = 0x7ff8_0000;
