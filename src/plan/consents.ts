import type { Bundle } from '../bundle/index.ts';
import type { NamedStep } from './order.ts';
import type { PlanConsent, PlanImage, PlanStep } from './types.ts';

/** Asks the operator's flags and configuration; nothing that the bundle says can answer it. */
export type IsGranted = (consent: {
  readonly kind: PlanConsent['kind'];
  readonly image: string;
  readonly step: string;
  /** The bundle says that it wants this; where it does not, only a consent that names the image is enough. */
  readonly asked: boolean;
}) => boolean;

/** A consent that names the image stands for `docker: true` (docs/bundle.md, "Invocation images"). */
export function isOfferedSocket(image: string, users: readonly NamedStep[], isGranted: IsGranted): boolean {
  return (
    users.length > 0 &&
    users.every(({ name }) => isGranted({ kind: 'docker', image, step: name, asked: false }))
  );
}

/** Every power over the host that the steps ask for, granted or not. */
export function consents(
  steps: readonly PlanStep[],
  images: Readonly<Record<string, PlanImage>>,
  { bundle, isGranted }: { readonly bundle: Bundle; readonly isGranted: IsGranted },
): readonly PlanConsent[] {
  const asks = (name: string, kind: PlanConsent['kind']): boolean =>
    kind !== 'docker' || bundle.invocationImages.some((image) => image.name === name && image.docker);
  const wanted: { kind: PlanConsent['kind']; meaning: string; wants: (image: PlanImage) => boolean }[] = [
    { kind: 'docker', meaning: 'root on this host', wants: (image) => image.docker },
    {
      kind: 'host-network',
      meaning: "this host's network, loopback included",
      wants: (image) => image.network === 'host',
    },
    { kind: 'privileged', meaning: 'root on this host', wants: (image) => image.privileged },
  ];
  return wanted.flatMap(({ kind, meaning, wants }) =>
    Object.entries(images)
      .filter(([, image]) => wants(image))
      .map(([name]) => {
        const users = steps.filter((step) => step.image === name).map((step) => step.id);
        const granted = users.every((step) =>
          isGranted({ kind, image: name, step, asked: asks(name, kind) }),
        );
        return { kind, image: name, steps: users, granted, meaning };
      }),
  );
}
