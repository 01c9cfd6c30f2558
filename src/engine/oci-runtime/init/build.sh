#!/bin/sh
# Makes binary.ts from init.c and mount.c; needs gcc (and gcc-aarch64-linux-gnu for arm64). Run after each change.
set -eu
cd "$(dirname "$0")"
flags='-Os -static -nostdlib -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -fno-builtin -fno-pic -no-pie -Wl,--build-id=none -Wl,-z,noseparate-code'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  echo '// Made by build.sh from init.c and mount.c: static programs of about a kilobyte, base64.'
  for program in init mount; do
    gcc $flags -o "$work/x64" $program.c && strip -s -R .comment "$work/x64"
    aarch64-linux-gnu-gcc $flags -o "$work/arm64" $program.c && aarch64-linux-gnu-strip -s -R .comment "$work/arm64"
    echo "export const ${program}Binaries: Readonly<Record<string, string>> = {"
    for arch in x64 arm64; do
      printf "  %s:\n    '%s',\n" "$arch" "$(base64 -w0 "$work/$arch")"
    done
    echo '};'
  done
} >"$work/binary.ts"
mv "$work/binary.ts" binary.ts
