/*
 * The one program that the Docker engine brings along. In a step's container it is the first process; in the helper
 * container of a session it changes owners and removes entries, as images need not have a shell, chown or rm.
 *
 *   run MARK COMMAND [ARGUMENT…]  starts the command as its child, hands on signals, reaps orphans, ends as it ended;
 *                                 a command that cannot be executed: MARK and the errno on stderr, exit 127 or 126
 *   pause                         sleeps until a signal
 *   own UID GID FOLDER…           gives folders and everything below to one user
 *   rm FOLDER NAME…               removes entries (slashes allowed) with everything below
 *   prune FOLDER NAME…            removes an entry if it is an empty file or folder
 *
 * Links are never followed and FIFOs and devices never opened: every step is taken from a folder's own handle.
 * No C library, no memory allocation; `build.sh` makes the bytes in binary.ts.
 */
typedef unsigned long word;
typedef unsigned int u32;

#if defined(__x86_64__)
enum { SYS_write = 1, SYS_close = 3, SYS_rt_sigaction = 13, SYS_rt_sigprocmask = 14, SYS_clone = 56, SYS_execve = 59,
       SYS_exit_group = 231, SYS_wait4 = 61, SYS_kill = 62, SYS_rt_sigtimedwait = 128, SYS_getdents64 = 217,
       SYS_openat = 257, SYS_fchownat = 260, SYS_unlinkat = 263, SYS_statx = 332 };
#define O_DIRECTORY 0200000
#define O_NOFOLLOW 0400000
static long call(long n, word a, word b, word c, word d, word e) {
  long r;
  register word r10 __asm__("r10") = d;
  register word r8 __asm__("r8") = e;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
  return r;
}
__asm__(".globl _start\n_start:\nmov %rsp,%rdi\nand $-16,%rsp\ncall start\n");
#elif defined(__aarch64__)
enum { SYS_write = 64, SYS_close = 57, SYS_rt_sigaction = 134, SYS_rt_sigprocmask = 135, SYS_clone = 220,
       SYS_execve = 221, SYS_exit_group = 94, SYS_wait4 = 260, SYS_kill = 129, SYS_rt_sigtimedwait = 137,
       SYS_getdents64 = 61, SYS_openat = 56, SYS_fchownat = 54, SYS_unlinkat = 35, SYS_statx = 291 };
#define O_DIRECTORY 040000
#define O_NOFOLLOW 0100000
static long call(long n, word a, word b, word c, word d, word e) {
  register word x8 __asm__("x8") = n;
  register word x0 __asm__("x0") = a;
  register word x1 __asm__("x1") = b;
  register word x2 __asm__("x2") = c;
  register word x3 __asm__("x3") = d;
  register word x4 __asm__("x4") = e;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
}
__asm__(".globl _start\n_start:\nmov x0,sp\nbl start\n");
#endif

#define O_NONBLOCK 04000
#define O_CLOEXEC 02000000
#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_REMOVEDIR 0x200
#define AT_EMPTY_PATH 0x1000
#define ENOENT 2
#define EACCES 13
#define ENOTDIR 20
#define SIGKILL 9
#define SIGCHLD 17
#define SIGSTOP 19
#define SIGURG 23
#define DEEPEST 1000

struct statx {
  u32 mask, blksize;
  unsigned long long attributes;
  u32 nlink, uid, gid;
  unsigned short mode, pad;
  unsigned long long ino, size, rest[26];
};
struct dirent {
  unsigned long long ino, off;
  unsigned short length;
  unsigned char type;
  char name[];
};

static void quit(long code) {
  for (;;) call(SYS_exit_group, code, 0, 0, 0, 0);
}
static int same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}
static word size_of(const char *text) {
  word n = 0;
  while (text[n]) n++;
  return n;
}
static u32 number(const char *text) {
  u32 value = 0;
  while (*text >= '0' && *text <= '9') value = value * 10 + (*text++ - '0');
  return value;
}
static int look(long folder, const char *name, struct statx *s) {
  return call(SYS_statx, folder, (word)name, AT_SYMLINK_NOFOLLOW, 0x7ff, (word)s) == 0;
}
static long enter(long folder, const char *name) {
  return call(SYS_openat, folder, (word)name, O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0, 0);
}
static int is_folder(const struct statx *s) { return (s->mode & 0170000) == 0040000; }

/* Each entry of a folder; `act` gets the folder's handle and the name. */
static long each(long folder, long (*act)(long, const char *, int), int depth) {
  char buffer[2048] __attribute__((aligned(8)));
  long got, failed = 0, at;
  if (depth > DEEPEST) return 1;
  while ((got = call(SYS_getdents64, folder, (word)buffer, sizeof(buffer), 0, 0)) > 0)
    for (at = 0; at < got;) {
      struct dirent *entry = (struct dirent *)(buffer + at);
      at += entry->length;
      if (!same(entry->name, ".") && !same(entry->name, "..")) failed |= act(folder, entry->name, depth + 1);
    }
  return failed | (got < 0);
}

static u32 owner, group;

static long own(long folder, const char *name, int depth) {
  struct statx s;
  long failed = 0, inner;
  if (!look(folder, name, &s)) return 0; /* gone meanwhile */
  if (s.uid != owner || s.gid != group)
    failed = call(SYS_fchownat, folder, (word)name, owner, group, AT_SYMLINK_NOFOLLOW) != 0;
  if (!is_folder(&s)) return failed;
  inner = enter(folder, name);
  if (inner < 0) return failed;
  failed |= each(inner, own, depth);
  call(SYS_close, inner, 0, 0, 0, 0);
  return failed;
}

static long drop(long folder, const char *name, int depth) {
  long inner, error = call(SYS_unlinkat, folder, (word)name, 0, 0, 0), rounds;
  struct statx s;
  if (error == 0 || error == -ENOENT) return 0;
  if (!look(folder, name, &s) || !is_folder(&s)) return 1;
  /* Removing while reading may skip entries: read again until nothing is left. */
  for (rounds = 0; rounds < 100; rounds++) {
    error = call(SYS_unlinkat, folder, (word)name, AT_REMOVEDIR, 0, 0);
    if (error == 0 || error == -ENOENT) return 0;
    inner = enter(folder, name);
    if (inner < 0) return 1;
    if (each(inner, drop, depth)) rounds = 100;
    call(SYS_close, inner, 0, 0, 0, 0);
  }
  return 1;
}

static long prune(long folder, const char *name, int depth) {
  struct statx s;
  (void)depth;
  if (!look(folder, name, &s)) return 0;
  if (is_folder(&s)) call(SYS_unlinkat, folder, (word)name, AT_REMOVEDIR, 0, 0);
  else if ((s.mode & 0170000) == 0100000 && s.size == 0) call(SYS_unlinkat, folder, (word)name, 0, 0, 0);
  return 0;
}

/* Walks `a/b/c` by handle down to its last component; a link on the way ends it. */
static long below(long folder, char *path, long (*act)(long, const char *, int)) {
  long at = folder, next, failed;
  for (;;) {
    char *end = path;
    while (*end && *end != '/') end++;
    if (same(path, "..") || (end - path == 2 && path[0] == '.' && path[1] == '.')) return 1;
    if (!*end) break;
    *end = 0;
    next = enter(at, path);
    if (at != folder) call(SYS_close, at, 0, 0, 0, 0);
    if (next < 0) return next != -ENOENT && next != -ENOTDIR && next != -40 /* ELOOP */;
    at = next;
    path = end + 1;
  }
  failed = act(at, path, 0);
  if (at != folder) call(SYS_close, at, 0, 0, 0, 0);
  return failed;
}

static char joined[4352];

static int not_there(long error) { return error == ENOENT || error == ENOTDIR; }

/* As execvp(3); the result is an errno. */
static long execute(char **argv, char **envp) {
  const char *name = argv[0], *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  long error = ENOENT, failed;
  word i, length = size_of(name);
  for (i = 0; i < length; i++)
    if (name[i] == '/') return -call(SYS_execve, (word)name, (word)argv, (word)envp, 0, 0);
  for (; *envp; envp++)
    if (envp[0][0] == 'P' && envp[0][1] == 'A' && envp[0][2] == 'T' && envp[0][3] == 'H' && envp[0][4] == '=') break;
  {
    char **all = argv; /* the environment follows the arguments' NULL */
    while (*all) all++;
    all++;
    if (*envp) path = *envp + 5;
    for (;;) {
      word at = 0, n;
      while (*path && *path != ':' && at < sizeof(joined) - 2) joined[at++] = *path++;
      while (*path && *path != ':') path++;
      if (at == 0) joined[at++] = '.';
      joined[at++] = '/';
      if (at + length < sizeof(joined)) {
        for (n = 0; n <= length; n++) joined[at + n] = name[n];
        failed = -call(SYS_execve, (word)joined, (word)argv, (word)all, 0, 0);
        if (failed == EACCES) error = EACCES;
        else if (!not_there(failed)) return failed;
      }
      if (!*path++) return error;
    }
  }
}

static void report(const char *mark, long error) {
  char text[160];
  word at = 0, n = size_of(mark), digits = 1;
  long rest;
  if (n > 128) n = 128;
  for (; at < n; at++) text[at] = mark[at];
  text[at++] = ' ';
  for (rest = error; rest >= 10; rest /= 10) digits++;
  for (n = digits; n > 0; n--, error /= 10) text[at + n - 1] = '0' + error % 10;
  at += digits;
  text[at++] = '\n';
  call(SYS_write, 2, (word)text, at, 0, 0);
}

static void run(char **argv, char **envp) {
  word all = ~(word)0, none = 0, action[4] = {0, 0, 0, 0}; /* SIG_DFL */
  long child, got, pid, error;
  int status, signal;
  call(SYS_rt_sigprocmask, 2, (word)&all, 0, 8, 0);
  child = call(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child < 0) quit(126);
  if (child == 0) {
    for (signal = 1; signal < 32; signal++)
      if (signal != SIGKILL && signal != SIGSTOP) call(SYS_rt_sigaction, signal, (word)action, 0, 8, 0);
    call(SYS_rt_sigprocmask, 2, (word)&none, 0, 8, 0);
    error = execute(argv + 1, envp);
    report(argv[0], error);
    quit(not_there(error) ? 127 : 126);
  }
  for (;;) {
    got = call(SYS_rt_sigtimedwait, (word)&all, 0, 0, 8, 0);
    if (got < 0 || got == SIGURG) continue;
    if (got != SIGCHLD) {
      call(SYS_kill, child, got, 0, 0, 0);
      continue;
    }
    while ((pid = call(SYS_wait4, (word)-1, (word)&status, 1 /* WNOHANG */, 0, 0)) > 0)
      if (pid == child) quit((status & 0x7f) ? 128 + (status & 0x7f) : (status >> 8) & 0xff);
  }
}

__attribute__((used)) void start(word *stack) {
  long argc = (long)stack[0], folder, failed = 0;
  char **argv = (char **)(stack + 1), **envp = argv + argc + 1;
  word some = ((word)1 << 14) | ((word)1 << 1); /* TERM and INT */
  if (argc >= 4 && same(argv[1], "run")) run(argv + 2, envp);
  if (argc == 2 && same(argv[1], "pause")) {
    call(SYS_rt_sigprocmask, 2, (word)&some, 0, 8, 0);
    while (call(SYS_rt_sigtimedwait, (word)&some, 0, 0, 8, 0) < 0);
    quit(0);
  }
  if (argc >= 5 && same(argv[1], "own")) {
    char **name = argv + 4;
    owner = number(argv[2]);
    group = number(argv[3]);
    for (; *name; name++) failed |= own(AT_FDCWD, *name, 0);
    quit(failed);
  }
  if (argc >= 3 && (same(argv[1], "rm") || same(argv[1], "prune"))) {
    char **name = argv + 3;
    folder = enter(AT_FDCWD, argv[2]);
    if (folder < 0) quit(1);
    for (; *name; name++) failed |= below(folder, *name, same(argv[1], "rm") ? drop : prune);
    quit(failed);
  }
  quit(125);
}
