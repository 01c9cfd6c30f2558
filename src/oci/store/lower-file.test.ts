import { expect, it } from 'vitest';
import { findsInLayers } from '../../testkit/contracts/lower-file.contract.ts';
import { hasGnuTar } from '../layer/index.ts';

it('L14 finds GNU tar, which is the reader here', async () => expect(await hasGnuTar()).toBe(true));
findsInLayers('GNU tar');
