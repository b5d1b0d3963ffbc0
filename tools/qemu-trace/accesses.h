/* Records of memory accesses: addresses, physical pages and page-table walks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_ACCESSES_H
#define QEMU_TRACE_ACCESSES_H

#include <stdint.h>

#include <qemu-plugin.h>

/* Marks all pages as not yet emitted. */
void forget_pages(void);
/* QEMU's callback for each access of the executed block. */
void accessed(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *data);
/* QEMU's callback before an instruction that clears memory (isa_clears_at), with the register that holds the address. */
void clears(unsigned int index, void *data);
/* Writes the walk of a virtual address. */
void put_walk(uint64_t address);

#endif
