/* What devices do: their transfers to and from the guest's RAM, and what QEMU's trace events say of the NIC.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_DEVICE_H
#define QEMU_TRACE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* What a RECORD_DEVICE tells; its arguments stand behind it. */
enum device_event {
    DEVICE_REGISTER,      /* software writes: address in the NIC, bytes, value */
    DEVICE_RX_FRAME,      /* a frame arrives */
    DEVICE_RX_DESCRIPTOR, /* it takes a descriptor: ring, physical address, bytes */
    DEVICE_RX_BUFFER,     /* part of it goes to memory: buffer, its physical address, offset in it, bytes */
    DEVICE_RX_DONE,       /* it is in memory: ring */
    DEVICE_RX_DROPPED,    /* it is not */
    DEVICE_TX_DESCRIPTOR, /* as read: the buffer's physical address, the next four bytes, the last four */
    DEVICE_MSIX,          /* vector */
    DEVICE_MSI,           /* causes */
    DEVICE_LINE,          /* level */
    DEVICE_EVENTS,
};

#define EVENT_ARGUMENTS 4

struct event {
    uint64_t count;
    uint8_t record;
    uint8_t kind;
    uint8_t arguments;
    uint64_t argument[EVENT_ARGUMENTS];
};

/* The plugin's side: an event happened, in whatever thread; the guest's console has printed a character. */
void device_happened(struct event *event);
void console_printed(char character);

/* The guest's RAM in QEMU, if it has been found. */
bool ram_find(void);
uint64_t ram_bytes(void);
/* Physical address of a byte of QEMU's memory; false if it is none of the guest's. */
bool ram_physical(const void *host, uint64_t *physical);
/* Eight bytes of the guest's RAM; false if it ends before them. */
bool ram_read(uint64_t physical, uint64_t *value);

#endif
