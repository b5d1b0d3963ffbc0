/* RV64 implementation of isa.h. Section numbers refer to the RISC-V Instruction Set Manual, volume II: Privileged Architecture.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "isa.h"

#include "device.h"
#include "plugin.h"
#include "registers.h"
#include "stream.h"

const char isa_target[] = "riscv64";
/* QEMU's `virt`: hw/riscv/virt.c. */
const uint64_t isa_ram_base = 2ull << 30;
const uint64_t isa_ram_bytes_max = 2ull << 30;

#define USER 0
#define MACHINE 3

static struct qemu_plugin_register *priv, *satp;

/* Trap registers of a privilege level, and its handler's address. */
struct handler {
    struct qemu_plugin_register *tvec, *cause, *epc;
    uint64_t address;
};

/* Values at the last isa_mode call. */
static struct handler kernel, firmware;
static uint64_t level;

void isa_find_registers(const GArray *all)
{
    priv = find_register(all, "priv");
    satp = find_register(all, "satp");
    kernel = (struct handler){ find_register(all, "stvec"), find_register(all, "scause"), find_register(all, "sepc"), 0 };
    firmware = (struct handler){ find_register(all, "mtvec"), find_register(all, "mcause"), find_register(all, "mepc"), 0 };
}

/* 11.1.2 stvec: the lowest two bits select vectored interrupts, which neither Linux nor OpenSBI uses. */
#define TVEC_MODE 3

struct mode isa_mode(void)
{
    /* Mask out the virtualization bit. */
    level = read_register(priv) & 3;
    kernel.address = read_register(kernel.tvec) & ~(uint64_t)TVEC_MODE;
    firmware.address = read_register(firmware.tvec) & ~(uint64_t)TVEC_MODE;
    return (struct mode){ read_register(satp), (uint8_t)(STATE_64_BIT | (level != USER ? STATE_PRIVILEGED : 0)) };
}

bool isa_changes_mode(const uint8_t *bytes, size_t length)
{
    uint32_t word;

    if (length != 4) {
        /* C.EBREAK */
        return length == 2 && bytes[0] == 0x02 && bytes[1] == 0x90;
    }
    word = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    /* SYSTEM: ECALL, EBREAK, MRET, SRET; CSR instructions of satp, stvec and mtvec. */
    return (word & 0x7f) == 0x73 && ((word & 0x7000) == 0 || word >> 20 == 0x180 || word >> 20 == 0x105 || word >> 20 == 0x305);
}

/* 11.1.8 scause */
#define CAUSE_IS_INTERRUPT 63

struct trap isa_trap(uint64_t address)
{
    const struct handler *handler = level == MACHINE ? &firmware : &kernel;

    if (address != handler->address || level == USER) {
        return (struct trap){ .is_taken = false };
    }
    return (struct trap){ read_register(handler->epc), true, read_register(handler->cause) >> CAUSE_IS_INTERRUPT };
}

bool isa_waits(const uint8_t *bytes, size_t length)
{
    /* 3.3.3 WFI. */
    return length == 4 && bytes[0] == 0x73 && bytes[1] == 0x00 && bytes[2] == 0x50 && bytes[3] == 0x10;
}

/* 11.1.11 satp */
#define MODE_SHIFT 60
#define MODE_SV39 8
#define MODE_SV57 10
#define ROOT 0x00000fffffffffff
/* 11.3.1: bits of an entry; with none of the bits of IS_LEAF, it points to the next table. */
#define VALID 1
#define IS_LEAF 0x0e
#define WRITE 4
#define NUMBER_SHIFT 10
#define NUMBER 0x00000fffffffffff

/* 11.3.2 */
struct walk isa_walk(uint64_t space, uint64_t address)
{
    const struct walk none = { .page_bits = PAGE_SHIFT };
    struct walk walk = none;
    uint64_t scheme = space >> MODE_SHIFT, table = (space & ROOT) << PAGE_SHIFT;

    if (level == MACHINE || scheme < MODE_SV39 || scheme > MODE_SV57) {
        return none;
    }
    for (int shift = PAGE_SHIFT + 9 * (2 + (int)(scheme - MODE_SV39)); shift >= PAGE_SHIFT; shift -= 9) {
        uint64_t entry = table + (address >> shift & 0x1ff) * 8, value;
        if (!ram_read(entry, &value) || !(value & VALID)) {
            return none;
        }
        walk.entries[walk.count++] = entry;
        table = (value >> NUMBER_SHIFT & NUMBER) << PAGE_SHIFT;
        if (value & IS_LEAF) {
            walk.page_bits = (uint8_t)shift;
            walk.physical = (table & ~((1ull << shift) - 1)) | (address & ((1ull << shift) - 1));
            walk.is_writable = value & WRITE;
            return walk;
        }
    }
    return none;
}

struct qemu_plugin_register *isa_clears_at(const uint8_t *bytes, size_t length)
{
    (void)bytes;
    (void)length;
    return NULL;
}
