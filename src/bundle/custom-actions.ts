import { childOf, type DocNode } from '../document/index.ts';
import type { CustomAction } from './model.ts';
import { boolOf, textOf } from './reader.ts';
import { actionName, bool, field, object, record, text } from './shape.ts';

export const customActionsShape = record(
  object({
    description: field(text, 'what it does'),
    modifies: field(bool, 'changes the installation; true unless given'),
    stateless: field(bool, 'may run without an installation'),
  }),
  actionName,
);

export const BUILT_IN = ['install', 'upgrade', 'uninstall'] as const;

/** Porter's well-known actions, when they are not declared. */
const WELL_KNOWN: Readonly<Record<string, Omit<CustomAction, 'name'>>> = {
  'dry-run': {
    description:
      'Execute the installation in a dry-run mode, allowing to see what would happen with the given set of parameter values',
    modifies: false,
    stateless: true,
  },
  help: { description: 'Print an help message to the standard output', modifies: false, stateless: true },
  log: {
    description: 'Print logs of the installed system to the standard output',
    modifies: false,
    stateless: false,
  },
  status: {
    description: 'Print a human readable status message to the standard output',
    modifies: false,
    stateless: false,
  },
};

/** Declared actions first, then those that only have steps, in file order. */
export function readCustomActions(root: DocNode, withSteps: readonly string[]): readonly CustomAction[] {
  const declared = childOf(root, 'customActions');
  const names = declared?.kind === 'map' ? declared.entries.map((entry) => entry.key) : [];
  const custom = withSteps.filter(
    (name) => !(BUILT_IN as readonly string[]).includes(name) && !names.includes(name),
  );
  return [
    ...names.map((name) => {
      const node = childOf(declared, name);
      const undeclared = undeclaredAction(name);
      return {
        name,
        description: textOf(node, 'description') ?? '',
        modifies: boolOf(node, 'modifies') ?? undeclared.modifies,
        stateless: boolOf(node, 'stateless') ?? false,
      };
    }),
    ...custom.map(undeclaredAction),
  ];
}

function undeclaredAction(name: string): CustomAction {
  const known = Object.hasOwn(WELL_KNOWN, name) ? WELL_KNOWN[name] : undefined;
  return { name, ...(known ?? { description: name, modifies: true, stateless: false }) };
}
