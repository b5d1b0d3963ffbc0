/* See blocks.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "blocks.h"

#include <stdlib.h>
#include <string.h>

#include "accesses.h"
#include "device.h"
#include "isa.h"
#include "plugin.h"
#include "stream.h"

#define HASH_BITS 18

static struct block *hashed[1u << HASH_BITS];
static uint64_t defined;

static uint64_t physical_of(const struct qemu_plugin_insn *instruction)
{
    uint64_t physical;

    return ram_physical(qemu_plugin_insn_haddr(instruction), &physical) ? physical : UINT64_MAX;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const struct block *block)
{
    uint64_t hash = 0xcbf29ce484222325 ^ block->address ^ block->first << 20;

    for (uint32_t at = 0; at < block->text_bytes; at++) {
        hash = (hash ^ block->text[at]) * 0x100000001b3;
    }
    return hash ^ hash >> 32;
}

static bool are_same(const struct block *one, const struct block *other)
{
    return one->hash == other->hash && one->address == other->address && one->first == other->first && one->last == other->last
        && one->text_bytes == other->text_bytes && !memcmp(one->text, other->text, one->text_bytes);
}

/* Returns the equal block translated before, or a copy of this one. QEMU may discard and retranslate blocks at any time, and block numbers
 * must not depend on that. */
static struct block *keep(const struct block *block)
{
    struct block **bucket = &hashed[block->hash % (1u << HASH_BITS)], *kept;

    for (struct block *old = *bucket; old; old = old->next_of_hash) {
        if (are_same(old, block)) {
            return old;
        }
    }
    kept = allocate(sizeof(*kept));
    *kept = *block;
    kept->text = allocate(block->text_bytes);
    memcpy(kept->text, block->text, block->text_bytes);
    kept->accessed = allocate(block->instructions * sizeof(uint64_t));
    kept->next_of_hash = *bucket;
    *bucket = kept;
    return kept;
}

struct block *block_of(const struct qemu_plugin_tb *tb)
{
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    uint8_t *text = allocate(instructions * (1 + INSTRUCTION_BYTES_MAX));
    struct block block = { .address = qemu_plugin_tb_vaddr(tb), .text = text, .instructions = (uint32_t)instructions }, *kept;

    for (size_t at = 0; at < instructions; at++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, at);
        uint8_t *bytes = text + block.text_bytes + 1;
        size_t length = qemu_plugin_insn_data(instruction, bytes, INSTRUCTION_BYTES_MAX);
        bytes[-1] = (uint8_t)length;
        block.text_bytes += (uint32_t)length + 1;
        block.last = physical_of(instruction);
        block.first = at == 0 ? block.last : block.first;
        block.changes_mode = isa_changes_mode(bytes, length);
        block.waits = isa_waits(bytes, length) ? (uint32_t)at + 1 : block.waits;
        block.last_address = qemu_plugin_insn_vaddr(instruction);
    }
    block.hash = hash_of(&block);
    kept = keep(&block);
    free(text);
    return kept;
}

/* QEMU translates code once for all virtual addresses that map to it, and reports the first of them. A library's pages have another address
 * in each program. */
struct block *block_at(struct block *block, uint64_t address)
{
    struct block moved = *block;

    if (block->address == address) {
        return block;
    }
    if (block->other_address && block->other_address->address == address) {
        return block->other_address;
    }
    moved.last_address += address - block->address;
    moved.address = address;
    moved.successor = moved.other_address = NULL;
    moved.is_defined = false;
    moved.hash = hash_of(&moved);
    block->other_address = keep(&moved);
    return block->other_address;
}

/* Writes the walks of the pages in which the first and the last instruction start. */
static void put_walks(struct block *block)
{
    stream_room();
    put_walk(block->address);
    if (block->address >> PAGE_SHIFT != block->last_address >> PAGE_SHIFT) {
        stream_room();
        put_walk(block->last_address);
    }
    block->space = window.mode.space;
}

static void put_definition(struct block *block)
{
    stream_room();
    put_byte(RECORD_DEFINE);
    put_number(block->address);
    put_number(block->first + 1);
    put_number(block->last + 1);
    put_number(block->instructions);
    put_bytes(block->text, block->text_bytes);
    put_walks(block);
    block->number = defined++;
    block->is_defined = true;
}

void put_block(struct block *before, struct block *block)
{
    /* Kernel pages are the same in all address spaces. */
    if (block->is_defined && block->space != window.mode.space && !is_kernel(block->address)) {
        put_byte(RECORD_WALKS);
        put_number(block->number);
        put_walks(block);
        stream_room();
    }
    if (!block->is_defined) {
        put_definition(block);
    } else if (before && before->successor == block) {
        put_byte(RECORD_AGAIN);
        return;
    } else {
        put_byte(RECORD_BLOCK);
        put_number(block->number);
    }
    if (before) {
        before->successor = block;
    }
}
