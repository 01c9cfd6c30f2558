import { join } from 'node:path';
import { AUTH_FILES, type CredentialsEnvironment } from './types.ts';

export interface AuthLocation {
  readonly path: string;
  /** `legacy` is the map of hosts without anything around it (`~/.dockercfg`). */
  readonly kind: 'docker' | 'podman' | 'legacy';
}

/** Files that may hold credentials, first match wins: what a variable names before what is only usual. */
export function authLocations({ env, home }: CredentialsEnvironment): readonly AuthLocation[] {
  const value = (name: string): string | undefined => (env[name] === '' ? undefined : env[name]);
  const named = value('REGISTRY_AUTH_FILE');
  const docker = value('DOCKER_CONFIG');
  const runtime = value('XDG_RUNTIME_DIR');
  const podman = (folder: string): AuthLocation => ({
    path: join(folder, 'containers', 'auth.json'),
    kind: 'podman',
  });
  const list: readonly AuthLocation[] = [
    ...(named === undefined ? [] : [{ path: named, kind: 'podman' } as const]),
    ...(docker === undefined ? [] : [{ path: join(docker, 'config.json'), kind: 'docker' } as const]),
    ...(runtime === undefined ? [] : [podman(runtime)]),
    podman(value('XDG_CONFIG_HOME') ?? join(home, '.config')),
    // DOCKER_CONFIG stands in place of the usual folder, as for Docker itself.
    ...(docker === undefined
      ? [{ path: join(home, '.docker', 'config.json'), kind: 'docker' } as const]
      : []),
    { path: join(home, '.dockercfg'), kind: 'legacy' },
  ];
  return list.filter((entry, index) => list.findIndex((other) => other.path === entry.path) === index);
}

/** Where `login` writes: the file a variable names, else Docker's, which every tool reads. */
export function loginLocation(environment: CredentialsEnvironment): AuthLocation {
  const { env, home } = environment;
  const first = authLocations(environment)[0] as AuthLocation;
  const chosen = (env.REGISTRY_AUTH_FILE ?? '') !== '' || (env.DOCKER_CONFIG ?? '') !== '';
  return chosen ? first : { path: join(home, '.docker', 'config.json'), kind: 'docker' };
}

/** Where credentials are looked for and kept, in this order; an empty list says nothing. */
export function helpersOf({ helpers = [] }: CredentialsEnvironment): readonly string[] {
  return helpers.length === 0 ? [AUTH_FILES] : helpers;
}
