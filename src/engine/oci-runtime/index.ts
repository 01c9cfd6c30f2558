export { createOciRuntimeEngine, type OciRuntimeOptions } from './engine.ts';
export { embeddedIdMap } from './id-map.ts';
