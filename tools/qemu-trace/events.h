/* What devices do (device.h), between the blocks of the stream.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_EVENTS_H
#define QEMU_TRACE_EVENTS_H

#include <stdint.h>

/* Tells of what happened in other threads since the last block began. */
void put_elsewhere(void);
/* Tells how software has set the NIC's registers up to now. */
void put_nic_registers(uint64_t count);

#endif
