/* Writes device events (device.h) between the blocks of the stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_EVENTS_H
#define QEMU_TRACE_EVENTS_H

#include <stdint.h>

/* Writes the events of other threads since the start of the last block. */
void put_queued_events(void);
/* Writes the current values of the NIC registers that software has set. */
void put_nic_registers(uint64_t count);

#endif
