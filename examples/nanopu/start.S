# First instructions of a program: a stack for each core, then main.
    .section .text.start
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stacks_end
    csrr t0, mhartid
    slli t0, t0, 14         # 16 KB a core
    sub sp, sp, t0
    call main
    ebreak                  # main does not return
