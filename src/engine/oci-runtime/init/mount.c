/*
 * The mounts of a session, each without what mount(8) needs to start, which is four times as long as the call itself:
 *
 *     mount e FILE FOLDER       a file-system image straight from its file: EROFS, read-only. Linux can since 6.12, but
 *                               mount(8) always puts a loop device in between; 15 (ENOTBLK) says that this kernel, or
 *                               the file system that FILE is on, needs one
 *     mount o OPTIONS FOLDER    an overlay
 *     mount u FOLDER...         takes mounts off, those in use when they are no longer (MNT_DETACH)
 *
 * Ends with the errno of the (last) call that failed, so 0 is success; 22 for other arguments. `build.sh` makes the
 * bytes in binary.ts.
 */
typedef unsigned long word;

#define FLAGS (1 /* MS_RDONLY */ | 2 /* MS_NOSUID */ | 4 /* MS_NODEV */)

#if defined(__x86_64__)
#define SYS_mount 165
#define SYS_umount2 166
#define SYS_exit_group 231
static long call(long n, word a, word b, word c, word d, word e) {
  long r;
  register word r10 __asm__("r10") = d;
  register word r8 __asm__("r8") = e;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
  return r;
}
__asm__(".globl _start\n_start:\nmov %rsp,%rdi\nand $-16,%rsp\ncall start\n");
#elif defined(__aarch64__)
#define SYS_mount 40
#define SYS_umount2 39
#define SYS_exit_group 94
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

#define MNT_DETACH 2

static long carry_out(long argc, char **argv) {
  long i, result, error = 0;
  if (argc < 3 || argv[1][0] == 0 || argv[1][1] != 0) return 22;
  if (argv[1][0] == 'u') {
    for (i = 2; i < argc; i++)
      if ((result = call(SYS_umount2, (word)argv[i], MNT_DETACH, 0, 0, 0)) != 0) error = -result;
    return error;
  }
  if (argc != 4) return 22;
  if (argv[1][0] == 'e') return -call(SYS_mount, (word)argv[2], (word)argv[3], (word)"erofs", FLAGS, 0);
  if (argv[1][0] == 'o')
    return -call(SYS_mount, (word)"overlay", (word)argv[3], (word)"overlay", 0, (word)argv[2]);
  return 22;
}

__attribute__((used)) void start(word *stack) {
  call(SYS_exit_group, carry_out((long)stack[0], (char **)(stack + 1)), 0, 0, 0, 0);
}
