export { type LayoutStore, type LeaseOptions, type OpenStoreOptions, openStore } from './store.ts';
export { type Turn, takeTurn } from './turn.ts';
