# /usr/bin/m5 of every image: gem5's m5ops for shell scripts, with the command names of gem5's own `m5`
# program. On a machine without m5ops (QEMU, silicon) an operation ends in an illegal instruction.
#
# The file `m5` next to this one is the program: it is stored, so that images need no cross compiler and are the
# same everywhere, and a test of crates/image assembles it again. It is a flat binary that begins with its own ELF
# header (System V ABI, chapter 4). System calls: Linux's generic table. Before every operation the program waits
# until its output is drained (TCSBRK), so that marks and output are in order.

.option norelax
.option norvc

.equ TEXT_AT, 0x10000
.equ BUFFER_AT, 0x20000
.equ BUFFER_BYTES, 0x10000
.equ PAGE_BYTES, 0x1000
.equ USAGE_BYTES, 121

.equ SYS_IOCTL, 29
.equ SYS_WRITE, 64
.equ SYS_EXIT, 93
.equ TCSBRK, 0x5409

# How an operation uses the numbers on its command line: as its arguments; the first one as its second argument;
# none, and the result, the host's file, goes to standard output.
.equ PLAIN, 0
.equ FAIL, 1
.equ READ_FILE, 2

# A table entry: the name, padded with zeros, with the kind as its last byte; then the operation and a return.
.equ ENTRY_BYTES, 24
.equ ENTRY_KIND, 15
.equ ENTRY_CODE, 16

# argc and argv, the requested name, the current table entry, the first number.
#define ARGC s2
#define ARGV s3
#define NAME s4
#define ENTRY s5
#define FIRST s6
# The offset in the host's file, the buffer, and the address and length of its unwritten part.
#define OFFSET s6
#define BUFFER s7
#define AT s8
#define LEFT s9

.macro long_li register, value
    lui \register, (\value) >> 12
    addi \register, \register, (\value) & 0xfff
.endm

.macro system_call number
    li a7, \number
    ecall
.endm

.macro exit status
    li a0, \status
    system_call SYS_EXIT
.endm

.text
file:
    .byte 0x7f
    .ascii "ELF"
    .byte 2, 1, 1
    .balign 16, 0
    .half 2, 243                        # an executable, for RISC-V
    .word 1
    .quad TEXT_AT + (start - file), headers - file, 0
    .word 4                             # double-precision calling convention, as Debian's programs
    .half 64, 56, 2, 64, 0, 0
headers:
    # Type (load), flags (R 4, W 2, X 1), offset, addresses, sizes in file and memory, alignment.
    .word 1, 5
    .quad 0, TEXT_AT, TEXT_AT, end - file, end - file, PAGE_BYTES
    .word 1, 6
    .quad 0, BUFFER_AT, BUFFER_AT, 0, BUFFER_BYTES, PAGE_BYTES

# Finds the operation that the first word names.
.globl _start
_start:
start:
    ld ARGC, 0(sp)
    addi ARGV, sp, 8
    li t0, 2
    blt ARGC, t0, usage
    ld NAME, 8(ARGV)
    lla ENTRY, table
candidate:
    lbu t0, 0(ENTRY)
    beqz t0, usage
    mv t1, NAME
    mv t2, ENTRY
compare:
    lbu a0, 0(t1)
    lbu a1, 0(t2)
    bne a0, a1, another
    beqz a0, found
    addi t1, t1, 1
    addi t2, t2, 1
    j compare
another:
    addi ENTRY, ENTRY, ENTRY_BYTES
    j candidate

# Parses up to two numbers and performs the operation.
found:
    li a0, 1
    long_li a1, TCSBRK
    li a2, 1
    system_call SYS_IOCTL
    li t2, 3
    li a0, 0
    blt ARGC, t2, no_first
    ld a1, 16(ARGV)
    jal number
no_first:
    mv FIRST, a0
    li t2, 4
    li a0, 0
    blt ARGC, t2, no_second
    ld a1, 24(ARGV)
    jal number
no_second:
    lbu t0, ENTRY_KIND(ENTRY)
    li t1, READ_FILE
    beq t0, t1, read_file
    mv a1, a0
    mv a0, FIRST
    beqz t0, go
    mv a1, FIRST
    li a0, 0
go:
    jalr ENTRY_CODE(ENTRY)
done:
    exit 0

# Parses the decimal number at a1 into a0.
number:
    li a0, 0
digit:
    lbu t0, 0(a1)
    beqz t0, number_ends
    addi t0, t0, -'0'
    li t1, 10
    bge t0, t1, usage
    bltz t0, usage
    add t1, a0, a0                      # 10 x = 2 x + 8 x
    add a0, t1, t1
    add a0, a0, a0
    add a0, a0, t1
    add a0, a0, t0
    addi a1, a1, 1
    j digit
number_ends:
    ret

# Copies the host's file to standard output in buffer-sized pieces. The simulator does not wait for the guest to
# allocate a page, so the program writes to each page first.
read_file:
    long_li BUFFER, BUFFER_AT
    li OFFSET, 0
more:
    mv t0, BUFFER
    long_li t1, BUFFER_AT + BUFFER_BYTES
    long_li t2, PAGE_BYTES
touch:
    sb zero, 0(t0)
    add t0, t0, t2
    bltu t0, t1, touch
    mv a0, BUFFER
    long_li a1, BUFFER_BYTES
    mv a2, OFFSET
    jalr ENTRY_CODE(ENTRY)
    bltz a0, failed
    beqz a0, done
    add OFFSET, OFFSET, a0
    mv AT, BUFFER
    mv LEFT, a0
write:
    li a0, 1
    mv a1, AT
    mv a2, LEFT
    system_call SYS_WRITE
    blez a0, failed
    add AT, AT, a0
    sub LEFT, LEFT, a0
    bgtz LEFT, write
    j more
failed:
    exit 1

usage:
    li a0, 2
    lla a1, usage_text
    li a2, USAGE_BYTES
    system_call SYS_WRITE
    exit 2

.macro operation name, function, kind=PLAIN
0:  .ascii "\name"
    .zero ENTRY_KIND - (. - 0b)
    .byte \kind
    .word 0x7b | \function << 25
    ret
.endm
table:
    operation exit, 0x21
    operation fail, 0x22, FAIL
    operation resetstats, 0x40
    operation dumpstats, 0x41
    operation dumpresetstats, 0x42
    operation checkpoint, 0x43
    operation readfile, 0x50, READ_FILE
    operation workbegin, 0x5a
    operation workend, 0x5b
    .word 0
usage_text:
    .ascii "usage: m5 exit | fail CODE | resetstats | dumpstats | dumpresetstats | checkpoint | readfile | "
    .ascii "workbegin ID | workend ID\n"
.if . - usage_text != USAGE_BYTES
    .error "USAGE_BYTES is not the length of the text"
.endif
end:
