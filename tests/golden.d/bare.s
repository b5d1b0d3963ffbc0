# Two harts that increment a shared counter with AMOs, sleep until their own timer interrupts, print their number, and sleep.
    .option norvc
    .option norelax
    .globl _start
_start:
    csrr    s0, mhartid
    li      s1, 0x80001000          # the shared counter
    li      t0, 1000
1:  amoadd.d t1, t0, (s1)
    fence   rw, rw
    addi    t0, t0, -1
    bnez    t0, 1b
    li      s2, 0x0200bff8          # CLINT: mtime
    li      s3, 0x02004000          # CLINT: mtimecmp of hart 0
    slli    t0, s0, 3
    add     s3, s3, t0
    ld      t0, (s2)
    addi    t1, s0, 1
    li      t2, 5000
    mul     t1, t1, t2
    add     t0, t0, t1
    sd      t0, (s3)
    li      t0, 0x80                # mie.MTIE
    csrw    mie, t0
2:  wfi
    csrr    t0, mip
    andi    t0, t0, 0x80
    beqz    t0, 2b
    li      t0, 0x10000000          # the UART's THR
    addi    t1, s0, '0'
    sb      t1, (t0)
    csrw    mie, zero
3:  wfi
    j       3b
