import { errorTable } from '../kernel/index.ts';

export const installationError = errorTable({
  DEPENDENCIES_LATER: { exit: 17, summary: 'the bundle has dependencies, which this version does not run' },
  INSTALLATION_NAME: {
    exit: 2,
    summary: 'an installation name or namespace has characters that are not allowed',
  },
  INSTALLATION_EXISTS: { exit: 67, summary: 'the installation is installed already' },
  INSTALLATION_NOT_INSTALLED: { exit: 67, summary: 'the action needs an installation that is installed' },
  INSTALLATION_NOT_FOUND: { exit: 67, summary: 'there is no such installation' },
  PARAMETER_UNKNOWN: { exit: 2, summary: 'the bundle has no such parameter' },
  PARAMETER_INVALID: { exit: 2, summary: "a parameter's value does not fit its schema" },
  PARAMETER_MISSING: { exit: 2, summary: 'a required parameter has no value' },
  CREDENTIAL_MISSING: { exit: 2, summary: 'a required credential has no source' },
  CREDENTIAL_UNKNOWN: { exit: 2, summary: 'the bundle has no such credential' },
  CONSENT_MISSING: {
    exit: 45,
    summary: 'the plan needs power over the host that the operator has not granted',
  },
  RESUME_NOTHING: { exit: 67, summary: 'there is no run to resume' },
  RESUME_CHANGED: {
    exit: 68,
    summary: 'bundle, lock, parameters or policy changed since the run that is to be resumed',
  },
  RESUME_UNKNOWN_STEP: { exit: 51, summary: 'a step ended unknown and is not idempotent' },
  STEP_NOT_FOUND_IN_PLAN: { exit: 2, summary: 'the action has no such step' },
  STEP_NEEDS_OUTPUTS: { exit: 68, summary: 'a step run alone needs outputs that no run has made' },
  RUN_OTHER_ENGINE: { exit: 67, summary: 'an interrupted run was made by another engine' },
});
