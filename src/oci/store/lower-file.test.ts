import { expect, it } from 'vitest';
import { hasGnuTar } from '../layer/index.ts';
import { findsInLayers } from './lower-file.contract.ts';

it('L14 finds GNU tar, which is the reader here', async () => expect(await hasGnuTar()).toBe(true));
findsInLayers('GNU tar');
