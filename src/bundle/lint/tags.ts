import { type LintContext, nodeAt, spanAt } from './context.ts';

/** What a registry said of the tag of one invocation image, where that is not what porter.lock pins. */
export type TagState =
  | { readonly kind: 'moved'; readonly from: string; readonly to: string }
  | { readonly kind: 'unknown'; readonly reason: string };

/** Tags that moved since they were pinned. Warnings: what runs is what the lock says (docs/security.md). */
export function checkTags(context: LintContext): void {
  const { tags } = context.options;
  if (tags === undefined) return;
  for (const [i, { name, source }] of context.bundle.invocationImages.entries()) {
    const state = tags.get(name);
    if (state === undefined || source.kind !== 'registry') continue;
    const path = ['invocationImages', i, 'image'];
    const span = nodeAt(context, path)?.span ?? spanAt(context, path);
    if (state.kind === 'moved')
      context.report(span, {
        severity: 'warning',
        code: 'moved-tag',
        message: `${source.image} names ${state.to} by now; porter.lock pins ${state.from}, and that is what runs`,
        hint: `move the pin with: skycap lock --update ${name}`,
      });
    else
      context.report(span, {
        severity: 'warning',
        code: 'unknown-tag',
        message: `what ${source.image} names now is not known: ${state.reason}`,
      });
  }
}
