log() { printf '[%s] %s\n' "$(date -u +%T)" "$*" >&2; }
die() {
  log "$@"
  exit 1
}
require() (
  for tool in "$@"; do
    command -v "$tool" > /dev/null || die "missing: $tool"
  done
)
require curl jq
log "deploying ${ bundle.name } ${ bundle.version } to" ${ bundle.parameters.region }
[ -n "${ bundle.parameters.region }" ] || die 'no region'
