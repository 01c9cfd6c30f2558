export { referrersTag } from '../../image/referrers-tag.ts';
export { checkLogin, createRegistryClient } from './client.ts';
export type { RetryPolicy } from './retry.ts';
export type {
  Credential,
  CredentialsProvider,
  DistributionClient,
  ReferrersOptions,
  RegistryClientOptions,
} from './types.ts';
