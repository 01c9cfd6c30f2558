import { expect, it } from 'vitest';
import { writesTheTable } from '../../testkit/contracts/oracle.contract.ts';
import { hasGnuTar } from './index.ts';

it('L8 finds GNU tar, which is the writer here', async () => expect(await hasGnuTar()).toBe(true));
writesTheTable('GNU tar');
