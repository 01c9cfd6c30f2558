/**
 * The system calls a container may make. Everything else fails with EPERM, unknown ones with ENOSYS where a C library
 * falls back (clone3). Left out are the calls that load code into the kernel, change mounts, namespaces, clocks, swap,
 * accounting or quotas, read kernel memory or keys, trace performance, or that had a history of escapes without being
 * needed by ordinary programs: bpf, io_uring, userfaultfd, keyctl, perf_event_open, mount and its kin, setns, unshare.
 */
const FILES = `access chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3 faccessat
  faccessat2 fadvise64 fadvise64_64 arm_fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat
  fcntl fcntl64 fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64
  fsync ftruncate ftruncate64 futimesat getcwd getdents getdents64 getxattr getxattrat lchown lchown32 lgetxattr link
  linkat listxattr listxattrat llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 mkdir mkdirat mknod mknodat
  name_to_handle_at newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead
  readlink readlinkat readv removexattr removexattrat rename renameat renameat2 rmdir sendfile sendfile64 setxattr
  setxattrat splice stat stat64 statfs statfs64 statx symlink symlinkat sync sync_file_range sync_file_range2
  arm_sync_file_range syncfs tee truncate truncate64 ugetrlimit umask unlink unlinkat utime utimensat
  utimensat_time64 utimes vmsplice write writev cachestat statmount listmount`;
const EVENTS = `epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old
  eventfd eventfd2 fanotify_mark inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy
  io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit _newselect pipe pipe2 poll ppoll ppoll_time64
  pselect6 pselect6_time64 select signalfd signalfd4 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime
  timerfd_settime64`;
const PROCESSES = `arch_prctl brk capget capset execve execveat exit exit_group fork futex futex_requeue
  futex_time64 futex_wait futex_waitv futex_wake get_robust_list get_thread_area getegid getegid32 geteuid geteuid32
  getgid getgid32 getgroups getgroups32 getpgid getpgrp getpid getppid getpriority getresgid getresgid32 getresuid
  getresuid32 getrlimit getrusage getsid gettid getuid getuid32 ioprio_get ioprio_set kill membarrier modify_ldt
  pidfd_getfd pidfd_open pidfd_send_signal pkey_alloc pkey_free pkey_mprotect prctl prlimit64 process_madvise
  process_mrelease process_vm_readv process_vm_writev ptrace restart_syscall riscv_flush_icache rseq
  sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
  sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr
  sched_setparam sched_setscheduler sched_yield seccomp set_robust_list set_thread_area set_tid_address setfsgid
  setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setitimer setpgid setpriority setregid
  setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit setsid setuid setuid32
  tgkill tkill vfork wait4 waitid waitpid breakpoint cacheflush set_tls get_tls usr26 usr32`;
const SIGNALS = `alarm getitimer pause rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
  rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaltstack signal sigaction sigpending
  sigprocmask sigreturn sigsuspend`;
const MEMORY = `get_mempolicy landlock_add_rule landlock_create_ruleset landlock_restrict_self madvise map_shadow_stack
  mbind memfd_create memfd_secret mincore mlock mlock2 mlockall mmap mmap2 mprotect mremap mseal msync munlock
  munlockall munmap remap_file_pages set_mempolicy set_mempolicy_home_node`;
const NETWORK = `accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg
  recvmmsg_time64 recvmsg send sendmmsg sendmsg sendto setsockopt shutdown socketcall socketpair`;
const IPC = `ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend
  mq_timedsend_time64 mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64 shmat
  shmctl shmdt shmget`;
const TIME = `clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64
  gettimeofday nanosleep time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime
  timer_settime64 times adjtimex clock_adjtime clock_adjtime64`;
const SYSTEM = `getcpu getrandom ioctl sysinfo uname chroot`;

/** AF_VSOCK reaches the hypervisor, AF_ALG the kernel's ciphers: both are refused. */
const REFUSED_FAMILIES = [38, 40];
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET (sched.h). */
const NEW_NAMESPACES = 0x7e020000;
/** Values of personality(2) that change no security: PER_LINUX, UNAME26, both with and without 32 bits, query. */
const PERSONALITIES = [0x0, 0x8, 0x20000, 0x20008, 0xffffffff];
const ENOSYS = 38;
const EPERM = 1;

interface SeccompArgument {
  readonly index: number;
  readonly value: number;
  readonly valueTwo?: number;
  readonly op: 'SCMP_CMP_EQ' | 'SCMP_CMP_NE' | 'SCMP_CMP_MASKED_EQ' | 'SCMP_CMP_LT' | 'SCMP_CMP_GT';
}

interface SeccompRule {
  readonly names: readonly string[];
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO';
  readonly errnoRet?: number;
  readonly args?: readonly SeccompArgument[];
}

/** runtime-spec, config-linux.md, "Seccomp". */
export interface SeccompProfile {
  readonly defaultAction: 'SCMP_ACT_ERRNO';
  readonly defaultErrnoRet: number;
  readonly architectures: readonly string[];
  readonly syscalls: readonly SeccompRule[];
}

const ARCHITECTURES: Readonly<Record<string, readonly string[]>> = {
  x64: ['SCMP_ARCH_X86_64', 'SCMP_ARCH_X86', 'SCMP_ARCH_X32'],
  arm64: ['SCMP_ARCH_AARCH64', 'SCMP_ARCH_ARM'],
};

export function allowedCalls(): readonly string[] {
  const all = [FILES, EVENTS, PROCESSES, SIGNALS, MEMORY, NETWORK, IPC, TIME, SYSTEM].join(' ').split(/\s+/);
  return [...new Set(all)].filter((name) => name !== '').sort();
}

const profiles = new Map<string, SeccompProfile>();

/** @param arch as in `process.arch` */
export function seccompProfile(arch: string): SeccompProfile {
  const known = profiles.get(arch) ?? makeProfile(arch);
  profiles.set(arch, known);
  return known;
}

function makeProfile(arch: string): SeccompProfile {
  const allow = (names: readonly string[], args?: readonly SeccompArgument[]): SeccompRule => ({
    names,
    action: 'SCMP_ACT_ALLOW',
    ...(args === undefined ? {} : { args }),
  });
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: EPERM,
    architectures: ARCHITECTURES[arch] ?? [],
    syscalls: [
      allow(allowedCalls()),
      // One rule a range: comparisons of one rule are joined by "and", and one argument may be compared only once.
      allow(['socket'], [{ index: 0, value: Math.min(...REFUSED_FAMILIES), op: 'SCMP_CMP_LT' }]),
      allow(['socket'], [{ index: 0, value: 39, op: 'SCMP_CMP_EQ' }]),
      allow(['socket'], [{ index: 0, value: Math.max(...REFUSED_FAMILIES), op: 'SCMP_CMP_GT' }]),
      allow(['clone'], [{ index: 0, value: NEW_NAMESPACES, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }]),
      { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
      ...PERSONALITIES.map((value) => allow(['personality'], [{ index: 0, value, op: 'SCMP_CMP_EQ' }])),
    ],
  };
}
