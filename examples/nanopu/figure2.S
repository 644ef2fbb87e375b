# Loopback with increment, as figure 2 of the paper has it: a message of 16 bytes.
    .section .text.start
    .globl _start
_start:
    csrwi 0x053, 0          # lcurport
    csrwi 0x055, 0          # lcurpriority
    csrwi 0x054, 1          # lniccmd
wait_msg:
    csrr a5, 0x052          # lmsgsrdy
    bnez a5, loopback_plus1_16B
idle:
    csrwi 0x056, 2          # lidle
    csrr a5, 0x052
    beqz a5, idle
loopback_plus1_16B:
    mv x31, x30             # netTX, netRX: the header
    addi x31, x30, 1
    addi x31, x30, 1
    csrwi 0x056, 1          # lmsgdone
    j wait_msg
