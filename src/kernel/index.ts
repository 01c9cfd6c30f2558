export * from './errors.ts';
export * from './events.ts';
export { failpoint } from './failpoint.ts';
export { own } from './own.ts';
export { createRedactor, MASK, type Redactor, type RedactorStream, type SecretValue } from './redact.ts';
export { shellWord } from './shell-word.ts';
export {
  type CiSystem,
  ciSystem,
  clipNames,
  escapeLine,
  escapeTerminal,
  neutraliseWorkflowCommands,
} from './text.ts';
export { ulid } from './ulid.ts';
export { notUtf8At } from './utf8.ts';
