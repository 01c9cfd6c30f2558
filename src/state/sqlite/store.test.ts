import { openState } from '../index.ts';
import { stateContract } from '../state.contract.ts';

stateContract('sqlite', (directory) => openState({ directory }));
