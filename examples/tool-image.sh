#!/bin/sh
# Makes the root folder of a tool image from Debian packages, with this host's own apt sources.
#
# usage: tool-image.sh FOLDER PACKAGE...
#        tool-image.sh FOLDER PACKAGE:/PATH...
#
# The packages and what they depend on are downloaded and unpacked, nothing is installed and no package script runs;
# /bin/sh and the usual small tools are busybox. Good for command line tools, which need files and no set-up.
# PACKAGE:/PATH takes one file of a package and nothing that the package depends on but the C library: enough for a
# program in one file, such as docker.io:/usr/bin/docker. With DEB_CACHE=FOLDER downloads are kept there and used again.
set -eu
folder=$1
shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debs=${DEB_CACHE:-$work}
mkdir -p "$debs"
debs=$(cd "$debs" && pwd)

whole=busybox-static
files=
for wanted in "$@"; do
  case $wanted in
    *:/*) files="$files $wanted" whole="$whole libc6" ;;
    *) whole="$whole $wanted" ;;
  esac
done

if [ -z "$(find /var/lib/apt/lists -name '*_Packages*' 2>/dev/null | head -1)" ]; then
  apt-get -qq update
fi

# Only what the tool is linked with: recommended packages, and those that every Debian has anyway, stay out.
# shellcheck disable=SC2086
closure=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
  $whole | grep '^[a-z0-9]' | grep -Ev '^(debconf|cdebconf|dpkg|tar|install-info|perl-base|init-system-helpers)(:|$)' | sort -u)
available=
for package in $closure; do
  if apt-cache show "$package" >/dev/null 2>&1; then available="$available $package"; fi
done
missing=
for package in $available ${files:+$(printf '%s\n' $files | sed 's,:/.*,,')}; do
  if [ -z "$(find "$debs" -name "${package%:*}_*.deb" | head -1)" ]; then missing="$missing $package"; fi
done
# shellcheck disable=SC2086
if [ -n "$missing" ]; then (cd "$debs" && apt-get -qq -o APT::Sandbox::User=root download $missing); fi
for package in $available; do
  dpkg-deb -x "$(find "$debs" -name "${package%:*}_*.deb" | head -1)" "$folder"
done
for wanted in $files; do
  archive=$(find "$debs" -name "${wanted%%:/*}_*.deb" | head -1)
  dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$folder" "./${wanted#*:/}"
done

rm -rf "$folder/usr/share/doc" "$folder/usr/share/man" "$folder/usr/share/locale" "$folder/usr/share/info" "$folder/usr/share/lintian"
mkdir -p "$folder/bin" "$folder/tmp" "$folder/etc" "$folder/root"
chmod 1777 "$folder/tmp"
busybox="$folder/bin/busybox"
for name in $(chroot "$folder" /bin/busybox --list 2>/dev/null || "$busybox" --list); do
  if [ ! -e "$folder/bin/$name" ] && [ ! -e "$folder/usr/bin/$name" ]; then ln -s busybox "$folder/bin/$name"; fi
done
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n' >"$folder/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$folder/etc/group"
