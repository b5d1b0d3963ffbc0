/* What instructions read and write, on which physical pages, and how those are translated.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_ACCESSES_H
#define QEMU_TRACE_ACCESSES_H

#include <stdint.h>

#include <qemu-plugin.h>

/* No page has been told yet. */
void forget_pages(void);
/* QEMU's callback for each access of the block that is executed. */
void accessed(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *data);
/* QEMU's callback before an instruction that clears memory (isa_clears_at), with the register that says where. */
void clears(unsigned int index, void *data);
/* The walk of a virtual address. */
void put_walk(uint64_t address);

#endif
