import { userInfo } from 'node:os';
import type { Engine } from '../engine/index.ts';
import type { ImageAccess } from '../images/index.ts';
import type { Event } from '../kernel/index.ts';
import type { LayoutStore, RegistryClient } from '../oci/index.ts';
import type { RegistryClientOptions, StoreOptions } from '../oci/registry/index.ts';
import type { LoadedSettings, SettingsFlags } from '../settings/index.ts';
import type { ManagedStateStore } from '../state/index.ts';
import type { Context } from './types.ts';
import { version } from './version.ts';

/** What commands work with, each made when it is first asked for, and all let go together. */
export interface Composition extends AsyncDisposable {
  settings(): Promise<LoadedSettings>;
  state(): Promise<ManagedStateStore>;
  store(): Promise<LayoutStore>;
  registry(): Promise<RegistryClient>;
  registryOptions(): Promise<RegistryClientOptions>;
  /** Where logins are kept. */
  credentials(): Promise<StoreOptions>;
  images(): Promise<ImageAccess>;
  /** The engine that is named or, without a name, the first that fits. */
  engine(): Promise<Engine>;
  /** The namespace of `-n`, else the configured one. */
  namespace(): Promise<string>;
  /** Keeps something that must be disposed when the command ends. */
  own<T extends AsyncDisposable>(thing: T): T;
}

export function compose(context: Context, flags: SettingsFlags = {}): Composition {
  const owned = new AsyncDisposableStack();
  const settings = once(async () => {
    const { loadSettings } = await (await import('../settings/index.ts')).loadSettingsReader();
    const home = accountHome();
    return await loadSettings({
      env: context.host.env,
      flags,
      uid: context.host.uid,
      ...(home === undefined ? {} : { home }),
    });
  });
  const state = once(async () => {
    const { openState } = await import('../state/index.ts');
    return owned.use(await openState({ directory: (await settings()).settings.state.directory }));
  });
  const store = once(async () => {
    const { openStore } = await (await import('../oci/index.ts')).loadStore();
    return owned.use(await openStore({ directory: (await settings()).settings.store.directory }));
  });
  const credentials = once(async (): Promise<StoreOptions> => {
    const home = context.host.env.HOME ?? accountHome() ?? '/';
    const { credentialHelpers: helpers } = (await settings()).settings;
    const environment = { env: context.host.env, home, ...(helpers === undefined ? {} : { helpers }) };
    return { environment, signal: context.signal };
  });
  const registryOptions = once(async (): Promise<RegistryClientOptions> => {
    const { proxySettings } = await import('../kernel/http/index.ts');
    const { loadCredentials } = await import('../oci/registry/index.ts');
    const { createTlsLookup } = await loadCredentials();
    const { registries, hosts } = (await settings()).settings;
    const { environment } = await credentials();
    return {
      rules: registries,
      realms: Object.fromEntries(Object.entries(hosts).map(([host, { realms = [] }]) => [host, realms])),
      tls: createTlsLookup({ hosts, environment }),
      proxy: proxySettings(context.host.env),
      userAgent: `skycap/${version}`,
    };
  });
  const registry = once(async () => {
    const { loadCredentials, loadRegistryClient } = await import('../oci/registry/index.ts');
    const { createCredentialsProvider } = await loadCredentials();
    const { createRegistryClient } = await loadRegistryClient();
    const { environment } = await credentials();
    const options = await registryOptions();
    return owned.use(
      createRegistryClient({ ...options, credentials: createCredentialsProvider(environment) }),
    );
  });
  const images = once(async () => {
    const { createImageAccess } = await (await import('../images/index.ts')).loadImageAccess();
    const { signal, emit } = context;
    return createImageAccess(registry, await store(), { signal, emit });
  });
  const engine = once(async () => {
    const { chooseEngine } = await import('./compose-engine.ts');
    const { settings: chosen } = await settings();
    const found = await chooseEngine({ settings: chosen, store: await store(), host: context.host });
    owned.defer(async () => await found.engine[Symbol.asyncDispose]?.());
    context.emit({ type: 'engine.chosen', engine: found.engine.name, because: found.because } as Event);
    for (const message of found.limits) context.emit({ type: 'engine.notice', message } as Event);
    return found.engine;
  });
  return {
    settings,
    state,
    store,
    registry,
    registryOptions,
    credentials,
    images,
    engine,
    namespace: async () => (await settings()).settings.namespace,
    own: (thing) => owned.use(thing),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Undefined for a user that no account stands behind. */
function accountHome(): string | undefined {
  try {
    return userInfo().homedir;
  } catch {
    return undefined;
  }
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
