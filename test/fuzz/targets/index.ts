import type { Target } from '../types.ts';

/** Loaded one by one, after the counters and a planted fault are in place. */
export const targets: Readonly<Record<string, () => Promise<{ readonly target: Target }>>> = {
  reference: () => import('./reference.ts'),
  challenge: () => import('./challenge.ts'),
  manifest: () => import('./manifest.ts'),
  config: () => import('./config.ts'),
  tar: () => import('./tar.ts'),
  erofs: () => import('./erofs.ts'),
  'erofs-image': () => import('./erofs-image.ts'),
};
