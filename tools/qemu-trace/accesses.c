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
#include "stream.h"

#define PAGES (1u << PAGE_BITS)
#define NO_PAGE UINT64_MAX

struct page {
    uint64_t virtual, physical;
};

/* Those that were told last, by the lowest bits of the virtual page. */
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

void accessed(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    const struct qemu_plugin_hwaddr *where;
    struct block *block = window.block;
    uint64_t instruction, page = address >> PAGE_SHIFT, physical = NO_PAGE;
    struct page *told = &pages[page % PAGES];
    uint8_t first;

    (void)index;
    (void)data;
    if (!window.is_open) {
        return;
    }
    first = (uint8_t)(ACCESS | qemu_plugin_mem_size_shift(info) << ACCESS_SIZE_SHIFT | qemu_plugin_mem_is_store(info));
    instruction = *cpu.count - window.block_begun - 1;
    if (instruction >= block->instructions) {
        fail("an access of no instruction");
    }
    where = qemu_plugin_get_hwaddr(info, address);
    if (where && qemu_plugin_hwaddr_is_io(where)) {
        first |= ACCESS_IO;
    } else {
        physical = where ? qemu_plugin_hwaddr_phys_addr(where) >> PAGE_SHIFT : NO_PAGE;
        first |= told->virtual == page && told->physical == physical ? 0 : ACCESS_PAGE;
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
    if (first & ACCESS_IO) {
        put_io(where, info);
    } else if (first & ACCESS_PAGE) {
        *told = (struct page){ page, physical };
        put_number(physical);
        put_walk(address);
    }
}
