import type { FakeImage, FakeProcess } from '../engine/fake/index.ts';
import type { Engine, Session } from '../engine/index.ts';
import type { StateStore } from '../state/index.ts';
import type { ActionOptions, ActionWorld } from './action.fixture.ts';

/** The state as a process sees it that stands still for ever from a moment on, as a killed one does. */
export function mortalState(
  real: StateStore,
  { after = () => false }: { readonly after?: (method: string, given: readonly unknown[]) => boolean } = {},
): { readonly state: StateStore; die(): void; readonly dead: Promise<void> } {
  let isDead = false;
  const { promise: dead, resolve } = Promise.withResolvers<void>();
  const die = (): void => {
    isDead = true;
    resolve();
  };
  const state = new Proxy(real, {
    get(target, name) {
      if (name === 'lock') return async () => ({ mode: 'exclusive', [Symbol.asyncDispose]: async () => {} });
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== 'function') return member;
      return (...given: unknown[]) => {
        if (isDead) return new Promise(() => {});
        const result = (member as (...all: unknown[]) => unknown).apply(target, given);
        if (!after(String(name), given)) return result;
        return Promise.resolve(result).then((value) => {
          die();
          return value;
        });
      };
    },
  });
  return { state, die, dead };
}

/** Runs an action whose process dies while a step runs; the step goes on. */
export async function killedDuring(
  world: ActionWorld,
  directory: string,
  {
    action,
    body,
    step,
    ...more
  }: ActionOptions & {
    readonly action: string;
    readonly body: (process: FakeProcess) => number;
    /** The program during which it dies; the first one if not given. */
    readonly step?: string;
  },
): Promise<void> {
  const { state, die } = mortalState(world.state);
  const { promise, resolve } = Promise.withResolvers<void>();
  const image: FakeImage = {
    run: (process) => {
      if (step !== undefined && process.argv[0] !== step) return body(process);
      die();
      const code = body(process);
      resolve();
      return code;
    },
  };
  void world.run(directory, action, { ...more, image, state });
  await promise;
}

/** An engine of whose sessions one method is another one. */
export function around(
  method: 'run' | 'collect' | 'attach',
  instead: (original: () => Promise<unknown>) => Promise<unknown>,
): (engine: Engine) => Engine {
  const changed = (session: Session): Session =>
    new Proxy(session, {
      get(target, name) {
        const member = Reflect.get(target, name) as unknown;
        if (typeof member !== 'function') return member;
        if (name !== method) return member.bind(target) as unknown;
        return (...args: unknown[]) => instead(() => member.apply(target, args) as Promise<unknown>);
      },
    });
  return (engine) => ({
    ...engine,
    open: async (...given) => changed(await engine.open(...given)),
    async adopt(...given) {
      const session = await engine.adopt(...given);
      return session && changed(session);
    },
  });
}
