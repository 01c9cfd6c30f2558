export { type LayoutStore, type LeaseOptions, type OpenStoreOptions, openStore } from './store.ts';
export { takeTurnSoon } from './turn.ts';
