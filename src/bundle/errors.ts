import { errorTable } from '../kernel/index.ts';

export const bundleError = errorTable({
  BUNDLE_INVALID: { exit: 10, summary: 'porter.yaml has errors; lint lists them all' },
  BUNDLE_NOT_FOUND: { exit: 11, summary: 'there is no porter.yaml where one was looked for' },
  BUNDLE_UNREADABLE: { exit: 11, summary: 'porter.yaml cannot be read' },
  BUNDLE_OTHER_PLATFORM: { exit: 12, summary: 'the porter.yaml belongs to another product of that name' },
  BUNDLE_LEGACY: { exit: 12, summary: 'the porter.yaml is written for Porter 0.38 or older' },
  PARAMETER_INVALID: { exit: 13, summary: 'a value does not fit the schema of its parameter' },
});
