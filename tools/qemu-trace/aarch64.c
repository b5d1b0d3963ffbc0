/* AArch64 implementation of isa.h. Section numbers refer to the Arm Architecture Reference Manual for A-profile, DDI 0487.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "isa.h"

#include <stdio.h>

#include "device.h"
#include "plugin.h"
#include "registers.h"
#include "stream.h"

const char isa_target[] = "aarch64";
/* QEMU's `virt`: hw/arm/virt.c. */
const uint64_t isa_ram_base = 1ull << 30;
const uint64_t isa_ram_bytes_max = 2ull << 30;

#define GENERAL_REGISTERS 31

static struct qemu_plugin_register *cpsr, *ttbr0, *ttbr1, *tcr, *vbar, *elr, *general[GENERAL_REGISTERS];
/* Values at the last isa_mode call: page table of the kernel half, TCR, and exception vector base. */
static uint64_t kernel_table, control, vectors;
static bool is_privileged;

void isa_find_registers(const GArray *all)
{
    cpsr = find_register(all, "cpsr");
    ttbr0 = find_register(all, "TTBR0_EL1");
    ttbr1 = find_register(all, "TTBR1_EL1");
    tcr = find_register(all, "TCR_EL1");
    vbar = find_register(all, "VBAR");
    elr = find_register(all, "ELR_EL1");
    for (int at = 0; at < GENERAL_REGISTERS; at++) {
        char name[4];
        snprintf(name, sizeof(name), "x%d", at);
        general[at] = find_register(all, name);
    }
}

/* D24.2.192 TTBR0_EL1: bits 47 to 1. Higher bits may hold the ASID; Linux puts it into TTBR1_EL1. */
#define TABLE 0x0000fffffffffffe
/* Bits of QEMU's register "cpsr" (PSTATE): the exception level (C5.2.20 CurrentEL), and the bit that is set in AArch32. */
#define PSTATE_LEVEL 0x0c
#define PSTATE_IS_32_BIT 0x10

struct mode isa_mode(void)
{
    uint64_t state = read_register(cpsr);

    kernel_table = read_register(ttbr1) & TABLE;
    control = read_register(tcr);
    vectors = read_register(vbar);
    is_privileged = (state & PSTATE_LEVEL) != 0;
    return (struct mode){
        read_register(ttbr0) & TABLE,
        (uint8_t)((state & PSTATE_IS_32_BIT ? 0 : STATE_64_BIT) | (is_privileged ? STATE_PRIVILEGED : 0)),
    };
}

static uint32_t word_of(const uint8_t *bytes, size_t length)
{
    return length == 4 ? (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24 : 0;
}

/* C4.1.94 */
bool isa_changes_mode(const uint8_t *bytes, size_t length)
{
    uint32_t word = word_of(bytes, length);

    /* SVC, HVC, SMC, BRK; ERET; MSR to op0 3, op1 0, CRn 2, CRm 0: TTBR0_EL1, TTBR1_EL1, TCR_EL1; to VBAR_EL1. */
    return (word & 0xff000000) == 0xd4000000 || (word & 0xffffffe0) == 0xd69f03e0 || (word & 0xffffff00) == 0xd5182000
        || (word & 0xffffffe0) == 0xd518c000;
}

/* D1.4.1: vectors of 128 bytes each for synchronous exceptions, IRQ, FIQ and SError, from four sources. */
#define VECTOR_BYTES 0x80
#define VECTORS_BYTES 0x800

struct trap isa_trap(uint64_t address)
{
    uint64_t offset = address - vectors;

    if (offset >= VECTORS_BYTES || offset % VECTOR_BYTES) {
        return (struct trap){ .is_taken = false };
    }
    return (struct trap){ read_register(elr), true, offset / VECTOR_BYTES % 4 != 0 };
}

bool isa_waits(const uint8_t *bytes, size_t length)
{
    /* C6.2.477 WFI. */
    return word_of(bytes, length) == 0xd503207f;
}

/* D8.3 Translation table descriptor formats, for the 4 KiB granule and 48-bit addresses. */
#define VALID 1
#define TABLE_OR_PAGE 2
#define ADDRESS 0x0000fffffffff000
#define FOR_PROGRAMS 0x40
#define READ_ONLY 0x80
#define WRITABLE_WHEN_DIRTY (1ull << 51)
/* TCR_EL1, D24.2.185 */
#define SIZE_BITS 0x3f
#define KERNEL_SIZE_SHIFT 16
#define GRANULE 0xc000
#define KERNEL_GRANULE 0xc0000000
#define KERNEL_GRANULE_4K 0x80000000

struct walk isa_walk(uint64_t space, uint64_t address)
{
    const struct walk none = { .page_bits = PAGE_SHIFT };
    struct walk walk = none;
    bool is_kernel = address >> 55 & 1;
    uint64_t table = is_kernel ? kernel_table : space;
    int bits = 64 - (int)((is_kernel ? control >> KERNEL_SIZE_SHIFT : control) & SIZE_BITS);
    bool is_4k = is_kernel ? (control & KERNEL_GRANULE) == KERNEL_GRANULE_4K : !(control & GRANULE);

    if (!is_4k || bits > 48 || bits < 25) {
        return none;
    }
    /* D8.2.8: the start level is given by the address size, at nine bits per level. */
    for (int shift = bits > 39 ? 39 : bits > 30 ? 30 : 21; shift >= PAGE_SHIFT; shift -= 9) {
        uint64_t indices = (1ull << (bits - shift < 9 ? bits - shift : 9)) - 1;
        uint64_t entry = (table & ~1ull) + (address >> shift & indices) * 8, value;
        bool is_more;
        if (!ram_read(entry, &value) || !(value & VALID)) {
            return none;
        }
        is_more = value & TABLE_OR_PAGE;
        if (!is_more && (shift == PAGE_SHIFT || shift > 30)) {
            return none;
        }
        walk.entries[walk.count++] = entry;
        table = value & ADDRESS;
        if (!is_more || shift == PAGE_SHIFT) {
            walk.page_bits = (uint8_t)shift;
            walk.physical = (table & ~((1ull << shift) - 1)) | (address & ((1ull << shift) - 1));
            walk.is_writable = (!(value & READ_ONLY) || value & WRITABLE_WHEN_DIRTY) && (is_privileged || value & FOR_PROGRAMS);
            return walk;
        }
    }
    return none;
}

/* C6.2.91 DC ZVA, with blocks of 64 bytes on the recorded CPUs: QEMU does not report its stores to plugins. */
struct qemu_plugin_register *isa_clears_at(const uint8_t *bytes, size_t length)
{
    uint32_t word = word_of(bytes, length), place = word & 0x1f;

    return (word & 0xffffffe0) == 0xd50b7420 && place < GENERAL_REGISTERS ? general[place] : NULL;
}
