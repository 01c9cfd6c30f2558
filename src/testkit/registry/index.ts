export { type Asking, asking, codeOf, collect, type JumpingClock, jumpingClock } from './asking.ts';
export {
  type Calling,
  type Canned,
  calling,
  cannedResponse,
  type Made,
} from './calls.ts';
export * from './certificates.ts';
export { debianRegistry, type RegistryAuth, type RunningRegistry } from './debian-registry.ts';
export { type MemoryStore, memoryStore } from './memory-store.ts';
export {
  type Asked,
  type Reply,
  type Script,
  type ScriptedOptions,
  type ScriptedRegistry,
  scriptedRegistry,
} from './scripted.ts';
export {
  type Answer,
  IMAGE,
  INDEX,
  LAYER,
  manifestOf,
  type ServedWorld,
  servedWorld,
} from './served.ts';
export { type Scope, type TokenServerOptions, tokenServer } from './token-server.ts';
