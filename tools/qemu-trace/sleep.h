/* Measures the CPU's sleep time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_SLEEP_H
#define QEMU_TRACE_SLEEP_H

#include <stdint.h>

/* Called once, before the window starts. */
void sleep_begin(void);
/* Nanoseconds that the CPU has slept since the last call, or since sleep_begin. */
uint64_t slept(void);

#endif
