/** Queries from the command line. */
import { realEnv } from '#lib/env/real.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { type Command, operandOf, saying } from '../command.ts';
import { callCoordinator, sendJson } from '../coordinator.ts';
import { type QueryAnswer, queryTable } from './table.ts';

export const queryCommands: Readonly<Record<string, Command>> = {
  query: saying(
    `tsdbctl query QUERY [--from TIME --to TIME --step DURATION] [--engine m3ql] [--coordinator URL] [-o json]
  a query of PromQL, or M3QL, at the time of --to, or over a range when --from is given
  --to TIME          now when not given
  --step DURATION    1m when not given
  --coordinator URL  http://127.0.0.1:7201 when not given
  -o, --output json  the coordinator's own answer in the place of a table`,
    async (call) => {
      const { coordinator, engine, from, output, step } = call.options;
      const to = call.options.to ?? String(realEnv.clock.nowMillis() / 1000);
      const query = operandOf(call, 0, 'QUERY');
      const parameters = new URLSearchParams({ query, engine });
      const path = from === null ? 'query' : 'query_range';
      if (from === null) parameters.set('time', to);
      else {
        parameters.set('start', from);
        parameters.set('end', to);
        parameters.set('step', step);
      }
      const answer = await callCoordinator(sendJson, {
        coordinator,
        method: 'GET',
        path: `/api/v1/${path}?${parameters}`,
        what: 'query',
      });
      if (output === 'json') return JSON.stringify(answer, null, 2);
      if (output === 'table') return queryTable(answer as QueryAnswer);
      throw badRequest(`--output is neither table nor json: ${shownText(output)}`);
    },
  ),
};
