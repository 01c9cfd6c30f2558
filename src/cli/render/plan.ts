import { escapeLine, escapeTerminal, shellWord } from '../../kernel/index.ts';
import type { Late, Plan, PlanCommand, PlanStep } from '../../plan/index.ts';
import type { Style } from '../types.ts';
import { paint } from './style.ts';
import { properties, section, table } from './table.ts';
import { formatDuration } from './units.ts';

/** The plan that would run: order, digests, commands, what each step sees (of what is sensitive names only), consents. */
export function planText(plan: Plan, gaps: readonly string[], style: Style): string {
  const images = Object.entries(plan.images);
  const makers = makersOf(plan);
  return [
    `${paint(style, 'bold', `${plan.action} ${escapeLine(plan.installation.name)}`)}: ${escapeLine(plan.bundle.name)} ${escapeLine(plan.bundle.version)}, nothing was run\n`,
    section(
      'Images',
      images.length === 0
        ? ''
        : table(
            ['NAME', 'REFERENCE', 'DIGEST'],
            images.map(([name, { image }]) => [name, image.reference, image.manifestDigest]),
          ),
    ),
    section(
      'Steps',
      plan.steps.length === 0
        ? 'none\n'
        : plan.steps.map((step, index) => stepText(step, index, { style, makers })).join(''),
    ),
    section(
      'Consents',
      plan.consents
        .map(
          ({ kind, image, steps, granted, meaning }) =>
            `${granted ? 'granted' : paint(style, 'red', 'missing')}  ${kind} for image ${escapeLine(image)} (${meaning}), steps ${steps.map(escapeLine).join(', ')}\n`,
        )
        .join(''),
    ),
    section('What this engine does not keep', gaps.map((gap) => `${escapeLine(gap)}\n`).join('')),
  ].join('');
}

/** The steps that make outputs, by the outputs' names. */
type Makers = ReadonlyMap<string, string>;

function makersOf(plan: Plan): Makers {
  return new Map(plan.steps.flatMap((step) => step.outputs.map(({ name }) => [name, step.name] as const)));
}

function stepText(
  step: PlanStep,
  index: number,
  { style, makers }: { readonly style: Style; readonly makers: Makers },
): string {
  const { sees } = step;
  const details: (readonly [string, string | undefined])[] = [
    ['image', step.image],
    ['after', step.needs.length === 0 ? undefined : step.needs.join(', ')],
    ['when', step.when === undefined ? undefined : lateText(step.when, makers)],
    ['folder', lateText(step.dir, makers) || undefined],
    [
      'command',
      step.command.kind === 'argv'
        ? step.command.argv.map((word) => lateWord(word, makers)).join(' ')
        : undefined,
    ],
    ['with', step.with === undefined ? undefined : withText(step.with)],
    ['environment', Object.keys(step.env).length === 0 ? undefined : Object.keys(step.env).join(', ')],
    ['parameters', sees.parameters.length === 0 ? undefined : sees.parameters.join(', ')],
    ['credentials', sees.credentials.length === 0 ? undefined : sees.credentials.join(', ')],
    ['outputs seen', sees.outputs.length === 0 ? undefined : sees.outputs.join(', ')],
    ['inputs', sees.inputs.length === 0 ? undefined : sees.inputs.join(', ')],
    [
      'gives',
      step.outputs.length === 0
        ? undefined
        : step.outputs.map(({ name, sensitive }) => (sensitive ? `${name} (sensitive)` : name)).join(', '),
    ],
    ['timeout', step.timeoutMs === undefined ? undefined : formatDuration(step.timeoutMs)],
    ['attempts', step.retry === undefined ? undefined : String(step.retry.attempts)],
    ['always', step.always ? 'yes' : undefined],
  ];
  const head = `${index + 1}. ${paint(style, 'bold', escapeLine(step.id))}  ${escapeLine(lateText(step.description, makers))}\n`;
  return (
    head +
    indent(properties(details)) +
    (step.command.kind === 'script' ? indent(scriptText(step.command, makers)) : '')
  );
}

function withText(given: NonNullable<PlanStep['with']>): string {
  if ('value' in given) {
    return JSON.stringify(given.value);
  }
  return given.sensitive ? '(sensitive)' : JSON.stringify(given.tree);
}

function scriptText(command: Extract<PlanCommand, { kind: 'script' }>, makers: Makers): string {
  const shell = command.interpreter.length === 0 ? '' : ` (${command.interpreter.join(' ')})`;
  const bindings = command.bindings
    .map(({ variable, value }) => `  ${variable} = ${lateText(value, makers)}\n`)
    .join('');
  const lines = escapeTerminal(command.text)
    .trimEnd()
    .split('\n')
    .map((line) => `  ${line}\n`)
    .join('');
  return `script${shell}:\n${lines}${bindings === '' ? '' : `where:\n${bindings}`}`;
}

function lateWord(late: Late, makers: Makers): string {
  return 'value' in late
    ? shellWord(typeof late.value === 'string' ? late.value : JSON.stringify(late.value))
    : lateText(late, makers);
}

/** A value that only the run can know is told by where it comes from: `⟨output ip of apply⟩`. */
function lateText(late: Late, makers: Makers = new Map()): string {
  if ('value' in late) {
    return escapeLine(typeof late.value === 'string' ? late.value : JSON.stringify(late.value));
  }
  return escapeLine(
    late.template.replace(
      /\$\{\s*([^}]*?)\s*\}|\{\{\s*(.*?)\s*\}\}/g,
      (_, dollar?: string, mustache?: string) => `⟨${nameOf(dollar ?? mustache ?? '', makers)}⟩`,
    ),
  );
}

function nameOf(expression: string, makers: Makers): string {
  const output = /^(?:bundle\.)?outputs\.([\w-]+)(.*)$/.exec(expression);
  if (output !== null) {
    const [, name = '', rest] = output;
    const maker = makers.get(name);
    return `output ${name}${rest}${maker === undefined ? '' : ` of ${maker}`}`;
  }
  const step = /^steps\.([\w-]+)\.outputs\.([\w-]+)$/.exec(expression);
  return step === null
    ? expression.replace(/^bundle\.(parameter|credential)s\./, '$1 ')
    : `output ${step[2]} of ${step[1]}`;
}

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, '   ');
}
