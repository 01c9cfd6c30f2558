export type {
  Copied,
  CopyOptions,
  Ends,
  Finding,
  ImageSource,
  ImageTarget,
  Transport,
  Validation,
} from './copy/index.ts';
export { imageFault, ociError } from './errors.ts';
export type { ImportOptions, LayerSource, NewConfig, RootfsOptions } from './image/build.ts';
export type { ImageConfig, Index, Manifest } from './image/parse.ts';
export type * from './port.ts';
export type { LayoutStore, LeaseOptions, OpenStoreOptions } from './store/store.ts';
export type * from './types.ts';

/** The store on disk: `const { openStore } = await loadStore()`. */
export async function loadStore(): Promise<typeof import('./store/index.ts')> {
  return await import('./store/index.ts');
}

/** Pulling, pushing, importing and inspecting images, and their algebra. */
export async function loadImages(): Promise<typeof import('./image/index.ts')> {
  return await import('./image/index.ts');
}

/** Copying and checking images, from anywhere to anywhere: `copyImage`, `validateImage`. */
export async function loadCopy(): Promise<typeof import('./copy/index.ts')> {
  return await import('./copy/index.ts');
}

/** The tar codec, packing and unpacking. */
export async function loadLayers(): Promise<typeof import('./layer/index.ts')> {
  return await import('./layer/index.ts');
}

/** Registries: `createRegistryClient`, `checkLogin`; `serveRegistry`; `createCredentialsProvider`, `storeCredential`, … */
export {
  type Credential,
  type CredentialsEnvironment,
  type CredentialsProvider,
  type LoginEntry,
  loadCredentials,
  loadRegistryClient,
  loadRegistryServer,
  type RegistryClientOptions,
  type ServedRegistry,
  type ServeLimits,
  type ServeOptions,
  type Stored,
  type StoreOptions,
} from './registry/index.ts';
