/* Detects a replay that hangs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_WATCHDOG_H
#define QEMU_TRACE_WATCHDOG_H

/* Starts the watchdog; called once. */
void watchdog_begin(void);

#endif
