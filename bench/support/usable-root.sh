# Mounts the layers whose paths stand in $1 as one root and looks at every file of it. The way of the embedded engine.
# Arguments: file of paths, lowest first; program that mounts a file-system image. Run by `unshare --mount`.
set -eu
cd "$(mktemp -d)"
mount -t tmpfs tmpfs .
mkdir l root
number=0 lower=
while read -r path; do
  if [ -d "$path" ]; then ln -s "$path" l/$number
  else mkdir l/$number && "$2" e "$path" l/$number
  fi
  lower=l/$number${lower:+:$lower}
  number=$((number + 1))
done <"$1"
LIBMOUNT_FORCE_MOUNT2=always mount -t overlay -o "ro,lowerdir=$lower" overlay root
[ "$(find root -type f -size +0 -printf 'x%s\n' | wc -l)" -ge 20000 ]
