export { type CertificatesOptions, createTlsLookup } from './certificates.ts';
export { authLocations, loginLocation } from './locations.ts';
export { eraseCredential, type Stored, type StoreOptions, storeCredential } from './login.ts';
export { createCredentialsProvider } from './provider.ts';
export type * from './types.ts';
