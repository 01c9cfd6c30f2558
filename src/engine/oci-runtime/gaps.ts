/** What this engine does not keep of docs/security.md; the plan and `doctor` print it. */
export const OCI_RUNTIME_GAPS: readonly string[] = [
  'a privileged step has all capabilities inside its user namespace, not on the host',
  'a step with a network has no /sys, and one without limits has no cgroup of its own',
];
