export { checkLogin, createRegistryClient } from './client.ts';
export { referrersTag } from './referrers-tag.ts';
export type { RetryPolicy } from './retry.ts';
export type {
  Credential,
  CredentialsProvider,
  DistributionClient,
  ReferrersOptions,
  RegistryClientOptions,
} from './types.ts';
