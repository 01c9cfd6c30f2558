export type * from './port.ts';
export type * from './types.ts';
