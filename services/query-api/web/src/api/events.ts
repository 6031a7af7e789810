import { EventSourceParserStream } from 'eventsource-parser/stream';

import { Problem } from './problem';

/** The server-sent events of a response, as they happen, until it ends; throws a {@link Problem} that it ends with. */
export async function* eventsOf<Event extends { event: string }>(
  response: Response,
): AsyncGenerator<Event> {
  if (response.body === null) throw Problem.unreachable();
  const messages = response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  const reader = messages.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const event = JSON.parse(value.data) as Event;
    if (event.event === 'problem') throw Problem.inStream({ ...event });
    yield event;
  }
}
