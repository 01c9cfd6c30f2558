export { checkLogin, createRegistryClient } from './client.ts';
export type { RetryPolicy } from './retry.ts';
export type { Credential, CredentialsProvider, RegistryClientOptions } from './types.ts';
