import { engineContract } from '../contract/suite.contract.ts';
import { crunFixture } from './fixture.contract.ts';

engineContract('crun', crunFixture);
