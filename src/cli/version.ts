/** Set by the build; sources that run as they are have no release. */
export const version: string =
  (globalThis as { __SKYCAP_VERSION__?: string }).__SKYCAP_VERSION__ ?? '0.0.0-source';
