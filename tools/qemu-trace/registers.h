/* The CPU's registers, which QEMU gives names and handles.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_REGISTERS_H
#define QEMU_TRACE_REGISTERS_H

#include <stdint.h>

#include <qemu-plugin.h>

/* QEMU is ended if there is none of this name. */
struct qemu_plugin_register *find_register(const GArray *all, const char *name);
/* QEMU has no one name for it. */
struct qemu_plugin_register *find_program_counter(const GArray *all);
/* What is in one of at most 64 bits. */
uint64_t read_register(struct qemu_plugin_register *handle);

#endif
