export { serveRegistry } from './server.ts';
export type * from './types.ts';
