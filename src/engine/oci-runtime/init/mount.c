/*
 * Mounts a file-system image straight from its file: `mount FILE FOLDER`, type EROFS, read-only. Linux can since 6.12,
 * but mount(8) always puts a loop device in between. Ends with the errno of mount(2), so 0 is success; 15 (ENOTBLK)
 * says that this kernel, or the file system that FILE is on, needs the loop device. `build.sh` makes the bytes in
 * binary.ts.
 */
typedef unsigned long word;

#define FLAGS (1 /* MS_RDONLY */ | 2 /* MS_NOSUID */ | 4 /* MS_NODEV */)

#if defined(__x86_64__)
#define SYS_mount 165
#define SYS_exit_group 231
static long call(long n, word a, word b, word c, word d) {
  long r;
  register word r10 __asm__("r10") = d;
  register word r8 __asm__("r8") = 0;
  __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
  return r;
}
__asm__(".globl _start\n_start:\nmov %rsp,%rdi\nand $-16,%rsp\ncall start\n");
#elif defined(__aarch64__)
#define SYS_mount 40
#define SYS_exit_group 94
static long call(long n, word a, word b, word c, word d) {
  register word x8 __asm__("x8") = n;
  register word x0 __asm__("x0") = a;
  register word x1 __asm__("x1") = b;
  register word x2 __asm__("x2") = c;
  register word x3 __asm__("x3") = d;
  register word x4 __asm__("x4") = 0;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
}
__asm__(".globl _start\n_start:\nmov x0,sp\nbl start\n");
#endif

__attribute__((used)) void start(word *stack) {
  char **argv = (char **)(stack + 1);
  long error = stack[0] == 3 ? -call(SYS_mount, (word)argv[1], (word)argv[2], (word)"erofs", FLAGS) : 22;
  call(SYS_exit_group, error, 0, 0, 0);
}
