import type { Consent } from './types.ts';

/** What the flags of this command allow. */
export interface ConsentFlags {
  /** `--allow-docker-host-access`: true, or the images that it names. */
  readonly docker?: true | readonly string[];
  readonly hostNetwork?: true | readonly string[];
  readonly privileged?: true | readonly string[];
}

export interface ConsentRequest {
  readonly kind: Consent['kind'];
  readonly bundle: {
    /** Where it was pulled from; absent for a local bundle. */
    readonly repository?: string;
    readonly digest?: string;
    /** Absolute folder of a local bundle. */
    readonly directory?: string;
  };
  /** The invocation image: its name in the bundle and the repository of its reference. */
  readonly image?: { readonly name: string; readonly repository?: string };
  /** Id or `install[2]`. */
  readonly step?: string;
  /**
   * The bundle says that it wants this (`docker: true`, `network: host`, a mixin step of a bundle that requires it).
   * Otherwise only a consent that names the image is enough.
   */
  readonly asked: boolean;
}

export type ConsentAnswer =
  | { readonly granted: true; readonly by: string }
  | { readonly granted: false; readonly reason: string; readonly flag: string };

export const consentFlags: Readonly<
  Record<Consent['kind'], { readonly flag: string; readonly key: keyof ConsentFlags }>
> = {
  docker: { flag: '--allow-docker-host-access', key: 'docker' },
  'host-network': { flag: '--allow-host-network', key: 'hostNetwork' },
  privileged: { flag: '--allow-privileged', key: 'privileged' },
};

/**
 * Whether the operator agrees, by a flag of this command or a standing consent (docs/security.md, "Where power comes
 * from"). Nothing that the bundle says can answer this; it can only ask.
 */
export function consentFor(
  settings: { readonly consents: readonly Consent[] },
  flags: ConsentFlags,
  request: ConsentRequest,
): ConsentAnswer {
  const { flag, key } = consentFlags[request.kind];
  const given = flags[key];
  if (given === true && request.asked) return { granted: true, by: flag };
  if (Array.isArray(given) && given.some((name: string) => namesImage(name, request))) {
    return { granted: true, by: `${flag}=${request.image?.name}` };
  }
  const index = settings.consents.findIndex((consent) => holds(consent, request));
  if (index !== -1) return { granted: true, by: `consents[${index}] of the configuration` };
  const what = request.image === undefined ? 'this bundle' : `image ${request.image.name}`;
  const named = request.image === undefined ? flag : `${flag}=${request.image.name}`;
  return {
    granted: false,
    reason: `nobody has allowed ${words[request.kind]} for ${what}`,
    flag: named,
  };
}

const words: Readonly<Record<Consent['kind'], string>> = {
  docker: "the host's Docker socket (root on this host)",
  'host-network': "the host's network",
  privileged: 'a privileged container (root on this host)',
};

function holds(consent: Consent, request: ConsentRequest): boolean {
  if (consent.kind !== request.kind) return false;
  if (consent.bundle === undefined && consent.digest === undefined) return false;
  if (consent.bundle !== undefined) {
    const { repository, directory } = request.bundle;
    if (consent.bundle !== repository && consent.bundle !== directory) return false;
  }
  if (consent.digest !== undefined && consent.digest !== request.bundle.digest) return false;
  if (consent.step !== undefined && consent.step !== '*' && consent.step !== request.step) return false;
  if (consent.image === undefined) return request.asked;
  return namesImage(consent.image, request);
}

function namesImage(name: string, request: ConsentRequest): boolean {
  return request.image !== undefined && (name === request.image.name || name === request.image.repository);
}
