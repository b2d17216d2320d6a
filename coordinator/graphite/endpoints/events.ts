/** `events`: marks in time, written and read. */
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { shownJson } from '#lib/json_fields.ts';
import type { Work } from '#lib/turns/turns.ts';
import { AnswerPieces } from '../../http/answer_pieces.ts';
import { type ApiAnswer, type ApiRequest, jsonContentType } from '../../http/http_api.ts';
import {
  type Event,
  eventBytesMax,
  type EventStore,
  type NewEvent,
  type TagChoice,
} from '../events/event_store.ts';
import { parseTime } from '../time/attime.ts';
import { Zone } from '../time/zone.ts';

export interface EventsSetup {
  readonly store: EventStore;
  readonly clock: Clock;
  readonly timeoutMillis: number;
  readonly turningOf: (signal: AbortSignal) => Turning;
}

/** Of the year 9999. */
const secondsMax = 253_402_300_799;
const fields = ['what', 'when', 'tags', 'data'];

export async function postEvent(
  setup: EventsSetup,
  request: ApiRequest,
  body: unknown,
): Promise<ApiAnswer> {
  const event = newEventOf(body, Math.floor(setup.clock.nowMillis() / 1000));
  await setup.store.add(event, workOf(setup, request));
  return { status: 200, headers: {}, body: '' };
}

export async function getEvents(
  setup: EventsSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const nowSeconds = Math.floor(setup.clock.nowMillis() / 1000);
  const time = { nowSeconds, zone: new Zone(parameters.get('tz') || 'UTC') };
  const bound = (name: string, otherwise: number): number => {
    const text = parameters.get(name) || '';
    return text === '' ? otherwise : parseTime(text, time);
  };
  const window = { fromSeconds: bound('from', 0), untilSeconds: bound('until', nowSeconds) };
  const tags = wordsOf(parameters.get('tags') ?? '');
  const choice = choiceOf(parameters.get('set') || 'intersection');
  const jsonp = parameters.get('jsonp') || '';
  if (jsonp !== '') throw badRequest(`jsonp: not taken for events: ${shownText(jsonp)}`);
  const found = await setup.store.find(
    window,
    tags.length === 0 ? null : tags,
    choice,
    workOf(setup, request),
    request.readMemory,
  );
  const headers = { 'Content-Type': jsonContentType };
  return { status: 200, headers, body: eventsBody(found) };
}

/** They are some megabytes where they are many and long. */
function* eventsBody(events: readonly Event[]): Iterable<Uint8Array> {
  const pieces = new AnswerPieces();
  pieces.add('[');
  for (const [index, event] of events.entries()) {
    pieces.add(`${index === 0 ? '' : ','}${JSON.stringify(event)}`);
    if (pieces.isFull) yield pieces.take();
  }
  pieces.add(']');
  yield pieces.take();
}

function choiceOf(text: string): TagChoice {
  if (text === 'intersection') return 'all';
  if (text === 'union') return 'any';
  throw badRequest(`set: neither intersection nor union: ${shownText(text)}`);
}

function newEventOf(body: unknown, nowSeconds: number): NewEvent {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw badRequest(`event: not an object: ${shownJson(body)}`);
  }
  const given = body as { readonly [key: string]: unknown };
  const unknown = Object.keys(given).find((key) => !fields.includes(key));
  if (unknown !== undefined) throw badRequest(`event: unknown field: ${shownText(unknown)}`);
  const { what, when = nowSeconds, tags = [], data = '' } = given;
  if (typeof what !== 'string' || what === '')
    throw badRequest(`what: not a text: ${shownJson(what)}`);
  if (typeof when !== 'number' || when < 0 || when > secondsMax) {
    throw badRequest(`when: not Unix seconds: ${shownJson(when)}`);
  }
  if (typeof data !== 'string') throw badRequest(`data: not a text: ${shownJson(data)}`);
  return { what, when, data, tags: tagsOf(tags) };
}

/** @throws {TsdbError} BAD_REQUEST when it is longer than an event can be */
function wordsOf(text: string): readonly string[] {
  if (text.length > eventBytesMax) {
    throw badRequest(`tags: longer than ${eventBytesMax} characters: ${text.length}`);
  }
  return text.split(' ').filter((tag) => tag !== '');
}

/** A list, or words between spaces. */
function tagsOf(tags: unknown): readonly string[] {
  if (typeof tags === 'string') return wordsOf(tags);
  const isList = Array.isArray(tags) && tags.every((tag) => typeof tag === 'string');
  if (!isList) throw badRequest(`tags: neither a text nor a list of texts: ${shownJson(tags)}`);
  return tags as string[];
}

function workOf({ clock, timeoutMillis, turningOf }: EventsSetup, { signal }: ApiRequest): Work {
  return turningOf(clock.deadline(timeoutMillis, signal)).work;
}
