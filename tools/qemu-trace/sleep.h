/* How long the CPU has slept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_SLEEP_H
#define QEMU_TRACE_SLEEP_H

#include <stdint.h>

/* To be called once, before the window begins. */
void sleep_begin(void);
/* Nanoseconds that the CPU has slept since this was called last, or since sleep_begin. */
uint64_t slept(void);

#endif
