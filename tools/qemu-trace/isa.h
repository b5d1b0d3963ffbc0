/* What an instruction set has of its own, and the plugin asks for. The file of one of them is compiled in: x86.c, aarch64.c or
 * riscv64.c.
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

/* What QEMU calls it. */
extern const char isa_target[];
/* Where its machine has RAM, and how much of it lies there in one piece at most. */
extern const uint64_t isa_ram_base, isa_ram_bytes_max;

/* How instructions are executed: STATE bits (stream.h), and by which page table: what tells one address space from another, of
 * which the reader knows where the root is (crates/qemu-trace/src/target.rs). */
struct mode {
    uint64_t space;
    uint8_t flags;
};

#define WALK_MAX 5
#define CLEARED_SHIFT 6
#define CLEARED_BYTES (1u << CLEARED_SHIFT)

/* Page-table entries that a walk reads, their physical addresses from the root; and the bits of an offset into the page. Where
 * isa_clears_at has an answer, also where the address is physically, and whether it may be written. */
struct walk {
    uint64_t entries[WALK_MAX], physical;
    uint8_t count, page_bits;
    bool is_writable;
};

/* What led to a handler: an interrupt or an exception, and the instruction that the handler goes back to. */
struct trap {
    uint64_t address;
    bool is_taken, is_interrupt;
};

/* Finds the registers that the mode is read from, by QEMU's names for them. */
void isa_find_registers(const GArray *all);
struct mode isa_mode(void);
/* Whether the mode may be another one behind this instruction, the last one of a block. */
bool isa_changes_mode(const uint8_t *bytes, size_t length);
/* The trap that has led to the block at this address, where the instruction set tells that by registers. Asked at each block, in its mode. */
struct trap isa_trap(uint64_t address);
/* Whether the CPU waits for an interrupt behind it. */
bool isa_waits(const uint8_t *bytes, size_t length);
/* The walk of an address as the page tables stand: of no entries if it is not mapped. `space` is the mode's. */
struct walk isa_walk(uint64_t space, uint64_t address);
/* The register that says where, of an instruction that clears CLEARED_BYTES, aligned so, without QEMU's telling plugins; NULL of all
 * others. */
struct qemu_plugin_register *isa_clears_at(const uint8_t *bytes, size_t length);

#endif
