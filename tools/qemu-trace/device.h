/* Device activity: DMA to and from the guest's RAM, and the NIC's events from QEMU's trace events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_DEVICE_H
#define QEMU_TRACE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Events of RECORD_DEVICE, with the arguments that follow in the record. */
enum device_event {
    DEVICE_REGISTER,      /* register write by software: address in the NIC, bytes, value */
    DEVICE_RX_FRAME,      /* a frame arrives */
    DEVICE_RX_DESCRIPTOR, /* the frame takes a descriptor: ring, physical address, bytes */
    DEVICE_RX_BUFFER,     /* a part of the frame is written: buffer, its physical address, offset in it, bytes */
    DEVICE_RX_DONE,       /* the frame is in memory: ring */
    DEVICE_RX_DROPPED,    /* the frame is dropped */
    DEVICE_TX_DESCRIPTOR, /* a fetched descriptor: the buffer's physical address, the next four bytes, the last four */
    DEVICE_MSIX,          /* MSI-X message: vector */
    DEVICE_MSI,           /* MSI message: causes */
    DEVICE_LINE,          /* interrupt pin: level */
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

/* Callbacks into the plugin, in any thread: a device event happened; the guest's console printed a character. */
void device_happened(struct event *event);
void console_printed(char character);

/* Finds the guest's RAM in QEMU's memory; false if it is not found or too large. */
bool ram_find(void);
uint64_t ram_bytes(void);
/* Guest-physical address of a byte in QEMU's memory; false if it is not in the guest's RAM. */
bool ram_physical(const void *host, uint64_t *physical);
/* Reads eight bytes of the guest's RAM; false if they are not all in RAM. */
bool ram_read(uint64_t physical, uint64_t *value);

#endif
