/** Which paths of a coordinator's API take samples and which answer queries, as regular expressions of PromQL. */
const either = (paths: readonly string[]): string => paths.join('|');

export const writePaths: string = either([
  ...['.*/write', '.*/put/?', '.*/import(/prometheus)?', '.*/v1/metrics'],
  ...['.*/api/v2/series', '/datadog/.*/series', '.*/sketches'],
]);

export const readPaths: string = either([
  ...['.*/query(_range|_exemplars)?', '.*/read', '.*/labels', '.*/label/.*', '.*/federate'],
  ...['(/prometheus)?/api/v1/series', '.*/export(/csv)?', '/search', '/api/v1/search'],
  ...['.*/render/?', '.*/metrics/(find|expand)/?', '.*/metrics/index.json'],
]);

/** Answers that are none: those for which a limit stood (429), and those of what fails. */
export const failedStatus = '429|5..';

/** Share of the requests of these paths that were answered; 1 while there are requests and none fails. */
export function answeredShare(paths: string): string {
  const failed = `sum(rate(tsdb_coordinator_requests_total{@,path=~"${paths}",status=~"${failedStatus}"}[@]))`;
  return `1 - (${failed} or vector(0)) / sum(rate(tsdb_coordinator_requests_total{@,path=~"${paths}"}[@]))`;
}

/** The quantile of a histogram over all processes that are chosen. @param by further labels that stay */
export function quantile(
  share: number,
  metric: string,
  by: readonly string[] = [],
  more = '',
): string {
  return `histogram_quantile(${share}, sum by (${['le', ...by].join(', ')}) (rate(${metric}_bucket{@${more}}[@])))`;
}
