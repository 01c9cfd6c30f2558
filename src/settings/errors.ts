import { errorTable } from '../kernel/index.ts';

export const settingsError = errorTable({
  SETTINGS_INVALID: { exit: 2, summary: 'a configuration file, variable or flag holds something wrong' },
  SETTINGS_UNREADABLE: { exit: 2, summary: 'a configuration file is there and cannot be read' },
  SETTINGS_OWNER: { exit: 2, summary: 'a configuration file belongs to, or can be written by, someone else' },
  SETTINGS_HOME: { exit: 2, summary: 'neither HOME nor the variable for a folder is set' },
  SETTINGS_RUNTIME_DIRECTORY: {
    exit: 2,
    summary: 'there is no private folder on a tmpfs for secrets',
  },
});
