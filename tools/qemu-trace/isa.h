/* Interface of the parts that depend on the instruction set. One of x86.c, aarch64.c and riscv64.c is compiled in.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_ISA_H
#define QEMU_TRACE_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "glib.h"

struct qemu_plugin_register;

/* QEMU's name of the target. */
extern const char isa_target[];
/* Base address of the machine's RAM, and the maximum size of its first contiguous part. */
extern const uint64_t isa_ram_base, isa_ram_bytes_max;

/* Execution mode: STATE bits (stream.h), and a value that identifies the address space and contains the page table's root, which the reader
 * extracts (crates/qemu-trace/src/target.rs). */
struct mode {
    uint64_t space;
    uint8_t flags;
};

#define WALK_MAX 5
#define CLEARED_SHIFT 6
#define CLEARED_BYTES (1u << CLEARED_SHIFT)

/* A page-table walk: physical addresses of the entries read, from the root, and the number of offset bits in the page. The physical address
 * and is_writable are set only on instruction sets with isa_clears_at. */
struct walk {
    uint64_t entries[WALK_MAX], physical;
    uint8_t count, page_bits;
    bool is_writable;
};

/* Trap that led to a handler: interrupt or exception, and the instruction to which the handler returns. */
struct trap {
    uint64_t address;
    bool is_taken, is_interrupt;
};

/* Looks up the registers needed here by QEMU's names. */
void isa_find_registers(const GArray *all);
struct mode isa_mode(void);
/* Whether this instruction, the last of a block, may change the mode. */
bool isa_changes_mode(const uint8_t *bytes, size_t length);
/* The trap that led to the block at this address, if the instruction set has registers for it. Called at each block, in its mode. */
struct trap isa_trap(uint64_t address);
/* Whether the instruction waits for an interrupt. */
bool isa_waits(const uint8_t *bytes, size_t length);
/* Walk of an address with the current page tables, without entries if it is not mapped. `space` is the mode's. */
struct walk isa_walk(uint64_t space, uint64_t address);
/* Address register of an instruction that clears an aligned block of CLEARED_BYTES, which QEMU does not report to plugins; NULL for other
 * instructions. */
struct qemu_plugin_register *isa_clears_at(const uint8_t *bytes, size_t length);

#endif
