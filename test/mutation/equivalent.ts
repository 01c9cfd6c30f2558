import type { Mutant } from './types.ts';

/** Changes that nothing can tell from the source, each with why. They are left out of the score. Few: a test is better. */
export interface Equivalent extends Pick<Mutant, 'file' | 'was' | 'is'> {
  readonly why: string;
}

export const equivalents: readonly Equivalent[] = [
  {
    file: 'src/oci/store/attempt.ts',
    was: '{\n    return undefined;\n  }',
    is: '{}',
    why: 'a function that ends gives undefined',
  },
];

export function whyEquivalent(mutant: Mutant): string | undefined {
  return equivalents.find(
    ({ file, was, is }) => file === mutant.file && was === mutant.was && is === mutant.is,
  )?.why;
}
