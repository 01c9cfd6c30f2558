/*
 * The first process of every container of the embedded engine: starts the command as its child, hands on signals,
 * reaps orphans and ends with the child's exit code. Without it the command would be process 1 of its namespace,
 * which the kernel shields from its own signals: `kill -9 $$` would do nothing and the step would exit 0.
 *
 * File descriptor 3 gets an `s` as soon as this runs. If the command cannot be executed, its errno follows as decimal
 * text, and the exit code is 127 (there is none) or 126. No C library, no memory allocation; `build.sh` makes the bytes in binary.ts.
 */
typedef unsigned long word;

#if defined(__x86_64__)
#define SYS_write 1
#define SYS_rt_sigaction 13
#define SYS_rt_sigprocmask 14
#define SYS_execve 59
#define SYS_exit_group 231
#define SYS_wait4 61
#define SYS_kill 62
#define SYS_rt_sigtimedwait 128
#define SYS_clone 56
#define SYS_close 3
#define SYS_fcntl 72
static long call(long n, word a, word b, word c, word d, word e) {
  long r;
  register word r10 __asm__("r10") = d;
  register word r8 __asm__("r8") = e;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
  return r;
}
__asm__(".globl _start\n_start:\nmov %rsp,%rdi\nand $-16,%rsp\ncall start\n");
#elif defined(__aarch64__)
#define SYS_write 64
#define SYS_rt_sigaction 134
#define SYS_rt_sigprocmask 135
#define SYS_execve 221
#define SYS_exit_group 94
#define SYS_wait4 260
#define SYS_kill 129
#define SYS_rt_sigtimedwait 137
#define SYS_clone 220
#define SYS_close 57
#define SYS_fcntl 25
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

#define ENOENT 2
#define EACCES 13
#define ENOTDIR 20
#define SIGKILL 9
#define SIGCHLD 17
#define SIGSTOP 19
#define WNOHANG 1
#define REPORT 3

static char joined[4352];

static int not_there(long error) { return error == ENOENT || error == ENOTDIR; }

/* execvp without a C library; the result is an errno. */
static long execute(char **argv, char **envp) {
  const char *name = argv[0], *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  long error = ENOENT;
  word i, length = 0;
  for (; name[length]; length++)
    if (name[length] == '/') return -call(SYS_execve, (word)name, (word)argv, (word)envp, 0, 0);
  for (i = 0; envp[i]; i++)
    if (envp[i][0] == 'P' && envp[i][1] == 'A' && envp[i][2] == 'T' && envp[i][3] == 'H' && envp[i][4] == '=')
      path = envp[i] + 5;
  for (;;) {
    word at = 0, n;
    long failed;
    while (*path && *path != ':' && at < sizeof(joined) - 2) joined[at++] = *path++;
    while (*path && *path != ':') path++;
    if (at == 0) joined[at++] = '.';
    joined[at++] = '/';
    if (at + length < sizeof(joined)) {
      for (n = 0; n <= length; n++) joined[at + n] = name[n];
      failed = -call(SYS_execve, (word)joined, (word)argv, (word)envp, 0, 0);
      if (failed == EACCES) error = EACCES;
      else if (!not_there(failed)) return failed;
    }
    if (!*path++) return error;
  }
}

static void report(long error) {
  char text[8];
  int at = sizeof(text);
  do { text[--at] = '0' + error % 10; error /= 10; } while (error && at);
  call(SYS_write, REPORT, (word)(text + at), sizeof(text) - at, 0, 0);
}

__attribute__((used)) void start(word *stack) {
  long argc = (long)stack[0];
  char **argv = (char **)(stack + 1), **envp = argv + argc + 1;
  word all = ~(word)0, none = 0;
  word action[4] = {0, 0, 0, 0}; /* SIG_DFL */
  long child;
  int status, signal;
  if (argc < 2) call(SYS_exit_group, 127, 0, 0, 0, 0);
  call(SYS_write, REPORT, (word)"s", 1, 0, 0);
  call(SYS_rt_sigprocmask, 2, (word)&all, 0, 8, 0);
  child = call(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child < 0) call(SYS_exit_group, 126, 0, 0, 0, 0);
  if (child == 0) {
    long error;
    /* The supervising shell ignores some signals, and ignoring is inherited. */
    for (signal = 1; signal < 32; signal++)
      if (signal != SIGKILL && signal != SIGSTOP) call(SYS_rt_sigaction, signal, (word)action, 0, 8, 0);
    call(SYS_rt_sigprocmask, 2, (word)&none, 0, 8, 0);
    call(SYS_fcntl, REPORT, 2 /* F_SETFD */, 1 /* FD_CLOEXEC */, 0, 0);
    error = execute(argv + 1, envp);
    report(error);
    call(SYS_exit_group, not_there(error) ? 127 : 126, 0, 0, 0, 0);
  }
  call(SYS_close, REPORT, 0, 0, 0, 0);
  for (;;) {
    long got = call(SYS_rt_sigtimedwait, (word)&all, 0, 0, 8, 0);
    if (got < 0) continue;
    if (got != SIGCHLD) {
      call(SYS_kill, child, got, 0, 0, 0);
      continue;
    }
    for (;;) {
      long pid = call(SYS_wait4, (word)-1, (word)&status, WNOHANG, 0, 0);
      if (pid <= 0) break;
      if (pid == child) {
        int low = status & 0x7f;
        call(SYS_exit_group, low ? 128 + low : (status >> 8) & 0xff, 0, 0, 0, 0);
      }
    }
  }
}
