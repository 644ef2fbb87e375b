# First instructions of a program: a stack for each of 16 cores, then main. Other cores sleep.
    .section .text.start
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stacks_end
    csrr t0, mhartid
    li t1, 16
    bgeu t0, t1, sleep
    slli t0, t0, 14         # 16 KB a core
    sub sp, sp, t0
    call main
    ebreak                  # main does not return
sleep:
    wfi
    j sleep
