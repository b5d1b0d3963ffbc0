/* Access to the CPU's registers by QEMU's names and handles.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_REGISTERS_H
#define QEMU_TRACE_REGISTERS_H

#include <stdint.h>

#include <qemu-plugin.h>

/* Finds a register by name; exits QEMU if there is none. */
struct qemu_plugin_register *find_register(const GArray *all, const char *name);
/* Finds the program counter, whose name differs between targets. */
struct qemu_plugin_register *find_program_counter(const GArray *all);
/* Value of a register of at most 64 bits. */
uint64_t read_register(struct qemu_plugin_register *handle);

#endif
