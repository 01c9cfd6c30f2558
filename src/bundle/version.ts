const SEMVER =
  /^v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$/;

/** `v1.2` → `1.2.0`, as Porter writes a version to bundle.json; undefined when it is no semantic version. */
export function normalizeVersion(version: string): string | undefined {
  const match = SEMVER.exec(version);
  if (match === null) return undefined;
  const [, major, minor = '0', patch = '0', pre, build] = match;
  const core = [major, minor, patch].map((part) => String(Number(part))).join('.');
  return `${core}${pre === undefined ? '' : `-${pre}`}${build === undefined ? '' : `+${build}`}`;
}

export type SchemaVersion =
  | { readonly kind: 'supported'; readonly version: string; readonly delimiters: 'dollar' | 'mustache' }
  /** 1.1.0 and up: behind experimental flags of Porter. */
  | { readonly kind: 'experimental'; readonly version: string; readonly feature: string }
  | { readonly kind: 'unknown'; readonly version: string };

const EXPERIMENTAL: Readonly<Record<string, string>> = {
  '1.1.0': 'dependencies-v2',
  '1.2.0': 'persistent-parameters',
  '1.3.0': 'file-sources',
};

/** Which file format a `schemaVersion` names: `1.0.0-alpha.1 || >=1.0.0 <=1.0.1`, as Porter's check `exact`. */
export function classifySchemaVersion(written: string): SchemaVersion {
  const version = normalizeVersion(written);
  if (version === '1.0.0-alpha.1') return { kind: 'supported', version, delimiters: 'mustache' };
  if (version === '1.0.0' || version === '1.0.1') return { kind: 'supported', version, delimiters: 'dollar' };
  const feature = version === undefined ? undefined : EXPERIMENTAL[version];
  if (version !== undefined && feature !== undefined) return { kind: 'experimental', version, feature };
  return { kind: 'unknown', version: written };
}
