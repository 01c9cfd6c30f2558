/**
 * Tools that do nothing but check how they were called: exit 64 unless command line, folder, CNAB_ACTION and the
 * mounted porter.yaml are as they should be. `calls` are lines `BUNDLE ACTION ARGUMENTS`.
 */
export function standIn(calls: readonly string[], body = ''): string {
  return `#!/bin/sh
fail() { echo "stand-in: $*" >&2; exit 64; }
call="$CNAB_BUNDLE_NAME $CNAB_ACTION $*"
case "$call" in
${calls.map((call) => `"${call}") ;;`).join('\n')}
*) fail "unexpected call: $call" ;;
esac
[ "$PWD" = /cnab/app ] || fail "working directory is $PWD"
[ "$(head -n 1 /cnab/app/porter.yaml)" = "name: $CNAB_BUNDLE_NAME" ] || fail "porter.yaml is not that of $CNAB_BUNDLE_NAME"
if echo x 2>/dev/null >> /cnab/app/porter.yaml; then fail "porter.yaml can be written"; fi
${body}
echo "stand-in: $call"
`;
}

/** Terraform keeps its state file in the folder: what apply wrote has to be there at the next action. */
export const terraform = standIn(
  [
    'my-porter-bundle install apply -auto-approve',
    'infra-management-bundle install init',
    'infra-management-bundle install apply -auto-approve',
    'infra-management-bundle upgrade apply -auto-approve',
    'infra-management-bundle uninstall destroy -auto-approve',
  ],
  `if [ "$1" = apply ]; then
  if [ "$CNAB_ACTION" = install ]; then [ ! -e terraform.tfstate ] || fail "there is a state before the first apply"
  else [ "$(cat terraform.tfstate)" = "state of $CNAB_BUNDLE_NAME" ] || fail "terraform.tfstate is not there"
  fi
  echo "state of $CNAB_BUNDLE_NAME" > terraform.tfstate
elif [ "$1" = destroy ]; then
  [ "$(cat terraform.tfstate)" = "state of $CNAB_BUNDLE_NAME" ] || fail "terraform.tfstate is not there"
  rm terraform.tfstate
fi`,
);

export const helm = standIn(['my-porter-bundle install install myapp ./myapp-chart']);

export const kubectl = standIn([
  'k8s-deployment-bundle install apply -f app-deployment.yaml',
  'k8s-deployment-bundle upgrade set image deployment/app app=app:v2',
  'k8s-deployment-bundle uninstall delete -f app-deployment.yaml',
]);
