/** What clients of Graphite ask to know which functions there are. */
import { jsonAnswer, type PlainHandler } from '../../http/http_api.ts';

/** Of graphite-web, whose functions are served. */
const version = '1.1.10';

export const graphiteVersion: PlainHandler<null> = () => jsonAnswer(version);
