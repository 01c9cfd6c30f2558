#!/bin/sh
# The main job, from nothing: two tool images are made, served by the built-in registry, pinned, and a bundle whose
# steps use both is installed, upgraded and uninstalled. Needs Debian or Ubuntu and root; leaves nothing behind but
# the packages crun, slirp4netns and iproute2.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
skycap=$root/bin/skycap

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() { printf '\033[2m$ %s\033[0m\n' "$*"; "$@"; }
# What a package manager says is worth reading only if it fails.
quietly() {
  if ! said=$("$@" 2>&1); then
    printf '%s\n' "$said" >&2
    exit 1
  fi
}
skycap() { printf '\033[2m$ skycap %s\033[0m\n' "$*"; "$skycap" "$@"; }

if [ "$(id -u)" != 0 ]; then
  echo "the embedded engine of this version needs root: run it with sudo" >&2
  exit 1
fi

missing=
command -v crun >/dev/null || missing="$missing crun"
command -v slirp4netns >/dev/null || missing="$missing slirp4netns"
command -v ip >/dev/null || missing="$missing iproute2"
if [ -n "$missing" ]; then
  say "Install what runs and connects containers:$missing"
  quietly apt-get -qq update
  # shellcheck disable=SC2086
  quietly env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing
fi

work=$(mktemp -d)
server=
cleanup() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    # It may still be writing into the folder that goes next.
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap cleanup EXIT INT TERM
export XDG_CONFIG_HOME="$work/config" XDG_DATA_HOME="$work/data" XDG_CACHE_HOME="$work/cache"
mkdir -p "$work/config/skycap" "$work/data" "$work/cache"

say "Two tool images, made from Debian packages with this host's own apt sources"
for tool in sqlite3 jq; do
  echo "  unpacking $tool and the libraries that it needs"
  sh "$root/examples/tool-image.sh" "$work/$tool" "$tool"
done
SKYCAP_STORE_DIRECTORY="$work/registry" skycap image import "$work/sqlite3" localhost/sqlite:3
SKYCAP_STORE_DIRECTORY="$work/registry" skycap image import "$work/jq" localhost/jq:1 \
  --label 'dev.skycap.interface={"description":"jq, a JSON processor","tools":{"jq":"1.6"}}'

say "A registry to pull them from: the built-in one, on loopback"
SKYCAP_STORE_DIRECTORY="$work/registry" "$skycap" registry serve --port 0 >"$work/address" 2>/dev/null &
server=$!
tries=0
until [ -s "$work/address" ]; do
  tries=$((tries + 1))
  if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
    echo "the registry did not start" >&2
    exit 1
  fi
  sleep 0.1
done
address=$(head -n 1 "$work/address")
echo "  it listens on $address; tools.example is rewritten to it, as one would to a mirror"
cat >"$work/config/skycap/config.yaml" <<EOF
registries:
  - prefix: tools.example
    location: $address
EOF

cp -r "$here" "$work/bundle"
cd "$work/bundle"

say "What the bundle is"
skycap explain

say "Pin its images: porter.lock holds digests, entrypoints, users"
skycap lock

say "What an install would do, before it does"
skycap install --dry-run

say "Install: each step in its own image, confined, with only what it may see"
skycap install

say "What it left"
skycap output list -i two-tools
skycap output show report -i two-tools

say "Upgrade: the database of the install is there again"
skycap upgrade --param amount=2
skycap output show total -i two-tools

say "Uninstall"
skycap uninstall
skycap installation show two-tools

say "Done. The bundle is in examples/two-tools/porter.yaml"
