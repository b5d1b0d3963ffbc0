/* Static blocks: QEMU's units of translation and execution, identified by their address and instruction bytes.
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
    /* The same instructions at the virtual address at which they were last executed, if it differs. */
    struct block *other_address;
    uint64_t hash, number, address, last_address, first, last;
    /* Address of the last access, per instruction. */
    uint64_t *accessed;
    /* Per instruction: its length (one byte) and its bytes. */
    uint8_t *text;
    uint32_t text_bytes, instructions;
    /* Number of instructions up to and including a wait instruction; 0 if there is none. On RISC-V, QEMU's block may continue after it. */
    uint32_t waits;
    /* Address space of its last emitted walk. */
    uint64_t space;
    /* Whether the mode may change at its end. */
    bool changes_mode;
    bool is_defined;
};

/* The block for a translation of QEMU: an equal one from before, or a new one. */
struct block *block_of(const struct qemu_plugin_tb *tb);
/* The same instructions, executed at this virtual address. */
struct block *block_at(struct block *block, uint64_t address);
/* Writes the execution of a block, with its definition at the first time. `before` is the previously executed block, or NULL. */
void put_block(struct block *before, struct block *block);

#endif
