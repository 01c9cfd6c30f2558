export type {
  Credential,
  CredentialsProvider,
  DistributionClient,
  ReferrersOptions,
  RegistryClientOptions,
  RetryPolicy,
} from './client/index.ts';
export type { CredentialsEnvironment, LoginEntry, Stored, StoreOptions } from './credentials/index.ts';
export type { ServedRegistry, ServeLimits, ServeOptions } from './server/index.ts';

/** The client and what it stands on; loaded when something is to be asked. */
export async function loadRegistryClient(): Promise<typeof import('./client/index.ts')> {
  return await import('./client/index.ts');
}

/** `serveRegistry`: a store as a registry (distribution-spec 1.1). */
export async function loadRegistryServer(): Promise<typeof import('./server/index.ts')> {
  return await import('./server/index.ts');
}

/** `createCredentialsProvider`, and what `login` and `logout` write. */
export async function loadCredentials(): Promise<typeof import('./credentials/index.ts')> {
  return await import('./credentials/index.ts');
}
