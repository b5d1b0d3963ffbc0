/* Static blocks: what QEMU translates and executes at a time, each known by its address and its instructions' bytes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_BLOCKS_H
#define QEMU_TRACE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include <qemu-plugin.h>

#define INSTRUCTION_BYTES_MAX 15

struct block {
    struct block *next_of_hash, *successor;
    /* The same instructions at the address at which they were executed last, if it is not this. */
    struct block *elsewhere;
    uint64_t hash, number, address, last_address, first, last;
    /* Of each instruction: where its last access was. */
    uint64_t *accessed;
    /* Of each instruction a byte, its length, and its bytes. */
    uint8_t *text;
    uint32_t text_bytes, instructions;
    /* Behind how many of them the CPU waits, 0 if it does not. QEMU's RISC-V goes on with others in the same block. */
    uint32_t waits;
    /* The address space in which its walk was told last. */
    uint64_t space;
    /* Whether the mode may be another one behind it. */
    bool changes_mode;
    bool is_defined;
};

/* The block that QEMU has translated: one that was translated before, or a new one. */
struct block *block_of(const struct qemu_plugin_tb *tb);
/* The same instructions, executed at this virtual address. */
struct block *block_at(struct block *block, uint64_t address);
/* Tells that a block is executed, and defines it if it is the first time. Another one may have been executed before it. */
void put_block(struct block *before, struct block *block);

#endif
