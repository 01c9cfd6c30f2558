export {
  type ConsentAnswer,
  type ConsentFlags,
  type ConsentRequest,
  consentFlags,
  consentFor,
} from './consent.ts';
export { settingsError } from './errors.ts';
export type * from './types.ts';

/** Reads files, so only commands that need settings load it: `loadSettings`, `ensureRuntimeDirectory`. */
export async function loadSettingsReader(): Promise<
  Pick<typeof import('./load.ts'), 'loadSettings' | 'settingNames'> &
    Pick<typeof import('./runtime.ts'), 'ensureRuntimeDirectory'>
> {
  const [load, runtime] = await Promise.all([import('./load.ts'), import('./runtime.ts')]);
  return {
    loadSettings: load.loadSettings,
    settingNames: load.settingNames,
    ensureRuntimeDirectory: runtime.ensureRuntimeDirectory,
  };
}
