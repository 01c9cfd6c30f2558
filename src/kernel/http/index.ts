export { type AddressClass, allowAddresses, classifyAddress, namesLoopback } from './address.ts';
export { createHttpClient } from './client.ts';
export { type Clock, systemClock } from './clock.ts';
export { HttpFailure, type HttpFailureKind, isHttpFailure } from './failure.ts';
export { proxyFor, proxySettings } from './proxy.ts';
export { Turns } from './turns.ts';
export type * from './types.ts';
