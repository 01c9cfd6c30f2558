#!/bin/sh
# Makes binary.ts from helper.c; needs gcc and gcc-aarch64-linux-gnu. Run after each change of helper.c.
set -eu
cd "$(dirname "$0")"
flags='-Os -Wall -Wextra -static -nostdlib -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -fno-builtin -fno-pic -no-pie -fno-tree-loop-distribute-patterns -Wl,--build-id=none -Wl,-z,noseparate-code'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gcc $flags -o "$work/amd64" helper.c && strip -s -R .comment "$work/amd64"
aarch64-linux-gnu-gcc $flags -o "$work/arm64" helper.c && aarch64-linux-gnu-strip -s -R .comment "$work/arm64"
{
  echo '// Made by build.sh from helper.c: static programs of some kilobytes, base64, by GOARCH.'
  echo 'export const helperBinaries: Readonly<Record<string, string>> = {'
  for arch in amd64 arm64; do
    printf "  %s:\n    '%s',\n" "$arch" "$(base64 -w0 "$work/$arch")"
  done
  echo '};'
} >binary.ts
