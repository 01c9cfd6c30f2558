export { openSqliteState } from './store.ts';
