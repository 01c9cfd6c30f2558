import { errorTable } from '../kernel/index.ts';

export const bundleError = errorTable({
  BUNDLE_INVALID: { exit: 10, summary: 'porter.yaml has errors; lint lists them all' },
  BUNDLE_NOT_FOUND: { exit: 11, summary: 'there is no porter.yaml where one was looked for' },
  BUNDLE_UNREADABLE: { exit: 10, summary: 'porter.yaml cannot be read' },
});
