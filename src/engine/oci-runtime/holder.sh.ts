/**
 * The shell program that holds a session: it runs in a mount namespace of its own, in which everything of the session
 * is mounted, so that whatever happens to it leaves no mount behind. It takes one order a line from its standard
 * input, which the tool holds open; when the tool is gone it waits for the containers that still run, and ends.
 *
 * Arguments: folder of the run (tmpfs), folder of this holder in it, folder for output on disk, state folder, runtime,
 * `network` or `-`, program that mounts (init/mount.c). Orders:
 *
 *     erofs N PATH                file-system image PATH becomes the lower l/N (folders are links there already)
 *     mount OVERLAY LOWERS        LOWERS: l/N:l/N…, uppermost first
 *     umount OVERLAY…             several, separated by blanks
 *     drop OVERLAY…               the same, and their writable layers are deleted
 *     run ID WHERE TIMEOUT GRACE  WHERE: mem | disk; TIMEOUT: seconds, or -; GRACE: seconds
 *
 * Why a shell: it is there on every host, a forked subshell costs a tenth of a process started from Node, and it
 * survives `kill -9` of the tool. Each container has a supervising subshell that alone writes `status`.
 */
export const holderScript = String.raw`
set -u
run=$1 here=$2 disk=$3 state=$4 runtime=$5 network=$6 mounter=$7
export LIBMOUNT_FORCE_MOUNT2=always LC_ALL=C
cd "$here" || exit 1
trap '' HUP INT QUIT PIPE TERM
fail() { printf 'failed %s\n' "$*"; exit 1; }

# The runtime must not see cgroups: it refuses mixed layouts. Ours stay reachable under cg/. In their place comes the
# folder for the containers' roots: the runtime enters those as an unprivileged id, which needs a way that all may go.
[ -d /sys/fs/cgroup ] || fail 'there is no /sys/fs/cgroup'
mount --rbind /sys/fs/cgroup cg 2>err || fail "$(cat err)"
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /sys/fs/cgroup 2>err || fail "$(cat err)"
mkdir -m 711 /sys/fs/cgroup/m || fail 'mkdir'
# An idmapped bind takes its flags from its source (crun 1.8 drops those it is given, as with all writable binds).
mount -o bind,nosuid,nodev "$state" b 2>err || fail "$(cat err)"
mount -o bind,ro,nosuid,nodev "$state" r 2>err || fail "$(cat err)"
mount -o bind,nosuid,nodev "$run/c" c 2>err || fail "$(cat err)"

# The runtime starts itself once more from a read-only copy of its program, so that no container can write to that
# one (CVE-2019-5736), unless it is on a read-only mount already: that saves each step a start and a copy.
own=$here/runtime
if : >"$own" && mount -o bind,ro "$runtime" "$own" 2>err; then runtime=$own; fi

if [ "$network" = network ]; then
  mkfifo net-ready net-alive && : >netns || fail 'mkfifo'
  unshare --net=netns true 2>err || fail "$(cat err)"
  # slirp4netns ends when nobody holds the other end of net-alive: this shell, its supervisors, their containers.
  exec 8<>net-alive
  # Not a child of this shell, which waits for all its children before it ends.
  ( slirp4netns --configure --mtu=65520 --disable-host-loopback --enable-sandbox --netns-type=path \
      --ready-fd=4 --exit-fd=5 "$here/netns" tap0 4>net-ready 5<net-alive 8>&- </dev/null >net-log 2>&1 &
    echo $! >slirp )
  ready=
  read -r ready <net-ready
  [ "$ready" = 1 ] || fail "slirp4netns: $(tail -n 2 net-log)"
  nsenter --net=netns sh -c '
    ip link set lo up && ip route add blackhole 169.254.0.0/16 &&
    echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start &&
    echo "0 2147483647" >/proc/sys/net/ipv4/ping_group_range' 2>err || fail "network: $(cat err)"
fi

supervise() {
  id=$1 d=$run/c/$1 t=$3 g=$4
  case $2 in mem) o=$d ;; *) o=$disk/$1 ;; esac
  cause=exited pending= timer= reaper=
  (
    trap - TERM USR1 USR2 ALRM HUP
    if [ -f "$d/groups" ]; then
      while read -r group; do echo 0 >"$here/cg/$group/cgroup.procs" || exit 125; done <"$d/groups"
    fi
    { echo -900 >/proc/self/oom_score_adj; } 2>/dev/null
    exec "$runtime" --root "$run/crun" --cgroup-manager=disabled --log "$d/log" run --preserve-fds 1 \
      --pid-file "$d/pid" --bundle "$d" "$id" </dev/null >>"$o/stdout" 2>>"$o/stderr" 3>"$d/exec"
  ) 2>>"$d/log" &
  child=$!
  # While the runtime starts. Nobody knows this process, to send it a signal, before it says which one it is.
  read -r line </proc/self/stat
  set -- $line
  self=$1
  trap 'pending=1; [ "$cause" = exited ] && cause=cancelled; soft' TERM
  trap 'pending=1; [ "$cause" = exited ] && cause=cancelled; hard' USR1
  trap 'pending=1; [ "$cause" = exited ] && cause=timeout; soft' USR2
  trap 'pending=1; hard' ALRM
  printf '%s\n' "$line" >"$d/supervisor"
  if [ "$t" != - ]; then after "$t" USR2; timer=$made; fi
  while :; do
    pending=
    wait "$child"
    code=$?
    [ -n "$pending" ] || break
  done
  trap '' TERM USR1 USR2 ALRM
  [ -z "$timer" ] || kill -TERM "$timer" 2>/dev/null
  [ -z "$reaper" ] || kill -TERM "$reaper" 2>/dev/null
  # Should the runtime itself have died (out of memory), it could not tidy up, and its container dies here.
  [ ! -e "$run/crun/$id" ] || hard
  printf '%s %s\n' "$code" "$cause" >"$d/status"
}
after() {
  ( trap 'kill "$s" 2>/dev/null; exit' TERM; trap '' USR1 USR2 ALRM
    sleep "$1" </dev/null >/dev/null 2>&1 8>&- & s=$!; wait "$s"; kill -"$2" "$self" 2>/dev/null ) &
  made=$!
}
first() { init=; [ -s "$d/pid" ] && read -r init <"$d/pid"; [ -n "$init" ] || read -r init 2>/dev/null <"$d/pid"; [ -n "$init" ]; }
soft() {
  if first; then kill -TERM "$init" 2>/dev/null; else kill -TERM "$child" 2>/dev/null; fi
  [ -n "$reaper" ] || { after "$g" ALRM; reaper=$made; }
}
hard() {
  if first; then kill -KILL "$init" 2>/dev/null; else kill -KILL "$child" 2>/dev/null; fi
  if [ -f "$d/groups" ]; then
    while read -r group; do
      [ -f "$here/cg/$group/cgroup.kill" ] && echo 1 >"$here/cg/$group/cgroup.kill"
    done <"$d/groups"
  fi
}

takeoff() {
  mounts= uppers=
  for one; do mounts="$mounts m/$one" uppers="$uppers u/$one"; done
  "$mounter" u $mounts 2>/dev/null
}

read -r line </proc/self/stat
printf '%s\n' "$line" >holder
echo ready
while read -r order id rest; do
  case $order in
    erofs)
      # Straight from the file, or (before Linux 6.12, or on a file system that cannot) through a loop device.
      if mkdir "l/$id" 2>err && { "$mounter" e "$rest" "l/$id" 2>>err ||
        mount -t erofs -o ro,nosuid,nodev,loop "$rest" "l/$id" 2>>err; }
      then echo "lower $id"; else echo "nolower $id $(tr '\n' ' ' <err)"; fi ;;
    mount)
      options="lowerdir=$rest,upperdir=u/$id/upper,workdir=u/$id/work,volatile"
      # mount(8) starts for its words only: of a refusal ours knows no more than the errno.
      if "$mounter" o "$options" "m/$id" 2>/dev/null || mount -t overlay -o "$options" overlay "m/$id" 2>err
      then echo "mounted $id"; else echo "nomount $id $(cat err)"; fi ;;
    umount) ( takeoff $id $rest; echo "unmounted $id $rest" ) & ;;
    drop) ( takeoff $id $rest; rm -rf $uppers 2>/dev/null; echo "dropped $id $rest" ) & ;;
    run) supervise "$id" $rest & ;;
  esac
done
echo >drained
wait
`;
