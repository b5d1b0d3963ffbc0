/* The raw stream that the plugin writes: buffered output and the numbers of its records. plugin.c's head says what they mean.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_STREAM_H
#define QEMU_TRACE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define STREAM_MAGIC "doorbell-qemu-1\n"

enum record {
    RECORD_END,
    RECORD_AGAIN,
    RECORD_BLOCK,
    RECORD_DEFINE,
    RECORD_CUT,
    RECORD_STATE,
    RECORD_IDLE,
    RECORD_DMA,
    RECORD_DEVICE,
    RECORD_BEGIN,
    RECORD_WALK,
};

/* A byte of an access: this, and the bits below. */
#define ACCESS 0x80
#define ACCESS_FURTHER 0x40
#define ACCESS_PAGE 0x20
#define ACCESS_SIZE_SHIFT 2
#define ACCESS_IO 0x02
#define ACCESS_STORE 0x01

bool stream_open(const char *path);
/* Seven bits a byte, lowest first; the highest bit says that more follow. */
void put_number(uint64_t number);
void put_difference(uint64_t from, uint64_t to);
void put_byte(uint8_t byte);
void put_bytes(const void *bytes, uint64_t length);
/* Room for one record of up to 64 bytes, or what is there is written. */
void stream_room(void);
void stream_flush(void);

#endif
