import { own } from '../../kernel/index.ts';
import { ociError } from '../errors.ts';
import type { Platform } from '../types.ts';
import { quoted } from './quoted.ts';

const ARCHITECTURES: Readonly<Record<string, readonly [string, string?]>> = {
  aarch64: ['arm64'],
  x86_64: ['amd64'],
  'x86-64': ['amd64'],
  x64: ['amd64'],
  i386: ['386'],
  i486: ['386'],
  i586: ['386'],
  i686: ['386'],
  ia32: ['386'],
  armhf: ['arm', 'v7'],
  armel: ['arm', 'v6'],
};
const SYSTEMS: Readonly<Record<string, string>> = { macos: 'darwin', win32: 'windows' };

/** One spelling for each platform: `arm64` without `v8`, `amd64` without `v1`, `arm` always with a variant. */
export function normalizePlatform(platform: Platform): Platform {
  const os = platform.os.toLowerCase();
  const named = platform.architecture.toLowerCase();
  const [architecture, implied] = own(ARCHITECTURES, named) ?? [named];
  const variant = normalizeVariant(architecture, platform.variant?.toLowerCase() || implied);
  return {
    os: own(SYSTEMS, os) ?? os,
    architecture,
    ...(variant === undefined ? {} : { variant }),
    ...(platform.osVersion === undefined || platform.osVersion === ''
      ? {}
      : { osVersion: platform.osVersion }),
  };
}

function normalizeVariant(architecture: string, given: string | undefined): string | undefined {
  const variant = given?.replace(/^(?=\d)/, 'v').replace(/\.0$/, '');
  if (architecture === 'arm') return variant ?? 'v7';
  if (architecture === 'arm64' && variant === 'v8') return undefined;
  if (architecture === 'amd64' && variant === 'v1') return undefined;
  return variant;
}

/**
 * `os/architecture[/variant]`, normalised.
 *
 * @throws PLATFORM_INVALID
 */
export function parsePlatform(text: string): Platform {
  const match = /^([A-Za-z0-9_-]+)(?:\(([A-Za-z0-9_.-]+)\))?\/([A-Za-z0-9_-]+)(?:\/([A-Za-z0-9_.-]+))?$/.exec(
    text,
  );
  if (match === null) {
    const hint = 'write os/architecture[/variant], e.g. linux/amd64 or linux/arm/v7';
    throw ociError('PLATFORM_INVALID', `${quoted(text)} is not a platform`, { hint });
  }
  const [, os = '', osVersion, architecture = '', variant] = match;
  return normalizePlatform({
    os,
    architecture,
    ...(variant === undefined ? {} : { variant }),
    ...(osVersion === undefined ? {} : { osVersion }),
  });
}

/** The opposite of `parsePlatform`. */
export function formatPlatform(platform: Platform): string {
  const { os, architecture, variant, osVersion } = normalizePlatform(platform);
  const version = osVersion === undefined ? '' : `(${osVersion})`;
  return `${os}${version}/${architecture}${variant === undefined ? '' : `/${variant}`}`;
}

/** @param node `process.platform` and `process.arch`; containers run Linux whatever the host is */
export function hostPlatform(node: { readonly platform: string; readonly arch: string }): Platform {
  const os = node.platform === 'win32' ? 'windows' : 'linux';
  return normalizePlatform({ os, architecture: node.arch });
}

/** What runs on `wanted`, best first: its own variant, lower ones, then the 32-bit sibling. */
export function platformOrder(wanted: Platform): readonly Platform[] {
  const base = normalizePlatform(wanted);
  const of = (architecture: string, variant?: string): Platform =>
    normalizePlatform({
      os: base.os,
      architecture,
      ...(variant === undefined ? {} : { variant }),
      ...(base.osVersion === undefined ? {} : { osVersion: base.osVersion }),
    });
  const arm = (from: number): Platform[] => down(from, 5).map((version) => of('arm', `v${version}`));
  if (base.architecture === 'arm64') {
    const variants = arm64Variants(base.variant ?? 'v8');
    if (variants !== undefined) return [...variants.map((variant) => of('arm64', variant)), ...arm(8)];
  }
  const number = Number(/^v(\d{1,2})$/.exec(base.variant ?? 'v1')?.[1] ?? Number.NaN);
  if (base.architecture === 'arm' && number >= 5) return arm(number);
  if (base.architecture === 'amd64' && number >= 1) {
    return [...down(number, 1).map((version) => of('amd64', `v${version}`)), of('386')];
  }
  return [base];
}

function down(from: number, to: number): number[] {
  return Array.from({ length: Math.max(from - to + 1, 0) }, (_, index) => from - index);
}

/** Armv9.n includes Armv8.(n+5). */
function arm64Variants(variant: string): readonly string[] | undefined {
  const match = /^v([89])(?:\.(\d))?$/.exec(variant);
  if (match === null) return undefined;
  const minor = Number(match[2] ?? 0);
  const eights = (from: number): string[] => down(from, 0).map((version) => `v8.${version}`);
  if (match[1] === '8') return eights(minor);
  return [...down(minor, 0).map((version) => `v9.${version}`), ...eights(Math.min(minor + 5, 9))];
}

export interface PlatformCandidate {
  readonly platform?: Platform;
  readonly annotations?: Readonly<Record<string, string>>;
}

/**
 * The first candidate that fits best (image-spec, image-index.md: the first match wins). Attestations and children
 * without a platform are no candidates.
 */
export function matchPlatform<T extends PlatformCandidate>(
  candidates: readonly T[],
  wanted: Platform,
): T | undefined {
  const images = candidates.filter(isImage).map((candidate) => ({
    candidate,
    platform: normalizePlatform(candidate.platform as Platform),
  }));
  for (const platform of platformOrder(wanted)) {
    const found = images.find((image) => fits(image.platform, platform));
    if (found !== undefined) return found.candidate;
  }
  return undefined;
}

function isImage(candidate: PlatformCandidate): boolean {
  if (candidate.platform === undefined || candidate.platform.os === 'unknown') return false;
  return candidate.annotations?.['vnd.docker.reference.type'] !== 'attestation-manifest';
}

function fits(offered: Platform, wanted: Platform): boolean {
  if (offered.os !== wanted.os || offered.architecture !== wanted.architecture) return false;
  if (offered.variant !== wanted.variant) return false;
  if (offered.osVersion === undefined || wanted.osVersion === undefined) return true;
  // Windows: a host runs images of its own build, whatever their revision.
  const build = (version: string): string => version.split('.').slice(0, 3).join('.');
  return build(offered.osVersion) === build(wanted.osVersion);
}
