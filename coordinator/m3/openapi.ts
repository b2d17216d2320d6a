/** The API as OpenAPI 3 says it, made of the table of routes: paths, methods, bodies, parameters in paths and headers about data. */
import { type BodyKind, jsonAnswer, type PlainHandler } from '../http/http_api.ts';
import type { Method } from '../http/server.ts';

export interface DescribedRoute {
  readonly methods: readonly Method[];
  readonly path: string;
  readonly body: BodyKind;
  /** Headers about data that it knows. */
  readonly headers: readonly string[];
}

const mediaTypeOf: Readonly<Record<Exclude<BodyKind, 'none'>, string>> = {
  form: 'application/x-www-form-urlencoded',
  json: 'application/json',
  bytes: 'application/octet-stream',
};

const errors = { 400: 'BadRequest', 503: 'Unavailable' } as const;

export function openApiOf(routes: readonly DescribedRoute[], version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = (paths[route.path] ??= {});
    for (const method of route.methods) path[method.toLowerCase()] = operationOf(route, method);
  }
  return {
    openapi: '3.0.3',
    info: {
      title: 'tsdb coordinator',
      version,
      description:
        'What parameters and bodies mean is described in docs/HTTP_API.md of the sources.',
    },
    paths,
    components: {
      schemas: {
        Error: {
          type: 'object',
          required: ['status', 'errorType', 'error'],
          properties: {
            status: { type: 'string', enum: ['error'] },
            errorType: { type: 'string' },
            error: { type: 'string', description: 'field, reason and value' },
          },
        },
      },
      responses: {
        BadRequest: errorResponse('a parameter, header or body makes no sense'),
        Unavailable: errorResponse('not now; retry after the seconds of Retry-After'),
      },
    },
  };
}

function errorResponse(description: string): object {
  return {
    description,
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  };
}

function operationOf({ path, body, headers }: DescribedRoute, method: Method): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name: name!,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inHeaders = headers.map((name) => ({
    name: `TSDB-${name}`,
    in: 'header',
    schema: { type: 'string' },
  }));
  const parameters = [...inPath, ...inHeaders];
  const hasBody = body !== 'none' && method !== 'GET' && method !== 'DELETE';
  return {
    operationId: `${method.toLowerCase()}${path.replace(/[^A-Za-z0-9]+/g, '_')}`,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(hasBody
      ? {
          requestBody: {
            content: {
              [mediaTypeOf[body]]: {
                schema:
                  body === 'bytes' ? { type: 'string', format: 'binary' } : { type: 'object' },
              },
            },
          },
        }
      : {}),
    responses: {
      200: { description: 'done' },
      ...Object.fromEntries(
        Object.entries(errors).map(([status, name]) => [
          status,
          { $ref: `#/components/responses/${name}` },
        ]),
      ),
    },
  };
}

export const openApi: PlainHandler<() => object> = (made) => jsonAnswer(made());
