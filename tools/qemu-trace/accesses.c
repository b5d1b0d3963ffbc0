/* See accesses.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "accesses.h"

#include <stdbool.h>
#include <string.h>

#include "blocks.h"
#include "isa.h"
#include "plugin.h"
#include "registers.h"
#include "stream.h"

#define PAGES (1u << PAGE_BITS)
#define NO_PAGE UINT64_MAX

struct page {
    uint64_t virtual, physical, space;
};

/* Last emitted page translations, indexed by the lowest bits of the virtual page number. */
static struct page pages[PAGES];

void forget_pages(void)
{
    memset(pages, 0xff, sizeof(pages));
}

void put_walk(uint64_t address)
{
    struct walk walk = isa_walk(window.mode.space, address);

    put_byte(walk.count);
    if (walk.count > 0) {
        put_byte(walk.page_bits);
    }
    for (uint8_t at = 0; at < walk.count; at++) {
        put_number(walk.entries[at] / 8);
    }
}

static void put_io(const struct qemu_plugin_hwaddr *where, qemu_plugin_meminfo_t info)
{
    qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);
    uint64_t low = value.data.u64;

    switch (value.type) {
    case QEMU_PLUGIN_MEM_VALUE_U8: low = value.data.u8; break;
    case QEMU_PLUGIN_MEM_VALUE_U16: low = value.data.u16; break;
    case QEMU_PLUGIN_MEM_VALUE_U32: low = value.data.u32; break;
    default: break;
    }
    put_number(qemu_plugin_hwaddr_phys_addr(where));
    put_number(low);
}

/* Starts the record of an access by the last started instruction. */
static void put_access(uint8_t first, uint64_t address)
{
    struct block *block = window.block;
    uint64_t instruction = *cpu.count - window.block_begun - 1;

    if (instruction >= block->instructions) {
        fail("an access does not belong to an instruction of the current block");
    }
    first |= instruction == window.accessing ? 0 : ACCESS_FURTHER;
    stream_room();
    put_byte(first);
    if (first & ACCESS_FURTHER) {
        put_difference(window.accessing, instruction);
        window.accessing = instruction;
    }
    put_difference(block->accessed[instruction], address);
    block->accessed[instruction] = address;
}

/* Writes the record of a memory access, with its page unless that was emitted before. */
static void put_memory_access(uint8_t first, uint64_t address, uint64_t physical_page)
{
    uint64_t page = address >> PAGE_SHIFT;
    struct page *emitted = &pages[page % PAGES];
    bool is_same_space = emitted->space == window.mode.space || is_kernel(address);

    if (emitted->virtual == page && emitted->physical == physical_page && is_same_space) {
        put_access(first, address);
        return;
    }
    put_access(first | ACCESS_PAGE, address);
    *emitted = (struct page){ page, physical_page, window.mode.space };
    put_number(physical_page);
    put_walk(address);
}

void accessed(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    const struct qemu_plugin_hwaddr *where;
    uint8_t first;

    (void)index;
    (void)data;
    if (!window.is_open) {
        return;
    }
    first = (uint8_t)(ACCESS | qemu_plugin_mem_size_shift(info) << ACCESS_SIZE_SHIFT | qemu_plugin_mem_is_store(info));
    where = qemu_plugin_get_hwaddr(info, address);
    if (where && qemu_plugin_hwaddr_is_io(where)) {
        put_access(first | ACCESS_IO, address);
        put_io(where, info);
    } else {
        put_memory_access(first, address, where ? qemu_plugin_hwaddr_phys_addr(where) >> PAGE_SHIFT : NO_PAGE);
    }
}

void clears(unsigned int index, void *data)
{
    uint64_t address;
    struct walk walk;

    (void)index;
    if (!window.is_open) {
        return;
    }
    address = read_register(data) & ~(uint64_t)(CLEARED_BYTES - 1);
    walk = isa_walk(window.mode.space, address);
    /* Otherwise the instruction faults. */
    if (walk.count > 0 && walk.is_writable) {
        put_memory_access(ACCESS | CLEARED_SHIFT << ACCESS_SIZE_SHIFT | ACCESS_STORE, address, walk.physical >> PAGE_SHIFT);
    }
}
