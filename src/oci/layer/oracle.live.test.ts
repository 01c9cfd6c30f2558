import { expect, it } from 'vitest';
import { hasGnuTar } from './index.ts';
import { writesTheTable } from './oracle.contract.ts';

it('L8 finds GNU tar, which is the writer here', async () => expect(await hasGnuTar()).toBe(true));
writesTheTable('GNU tar');
