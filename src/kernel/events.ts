/**
 * One stream of typed events tells what happens; renderers, log files and servers listen to it. Each room declares
 * the events it emits as a union of plain objects with a `type`; the one who composes adds time and run id.
 */
export interface Event {
  readonly type: string;
}

export type Emit<E extends Event = Event> = (event: E) => void;

export const ignoreEvents: Emit = () => {};
