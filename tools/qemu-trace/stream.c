/* See stream.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (1u << 20)
/* Upper bound of a record's size, without data written by put_bytes. */
#define RECORD_BYTES_MAX 128

static uint8_t buffer[BUFFER_BYTES];
static uint64_t used;
static int file = -1;

volatile bool stream_waits;

bool stream_open(const char *path)
{
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file >= 0) {
        /* If it is a pipe, enlarge its buffer, so that QEMU rarely waits for the reader. */
        (void)fcntl(file, F_SETPIPE_SZ, (int)BUFFER_BYTES);
    }
    return file >= 0;
}

void stream_flush(void)
{
    uint64_t written = 0;

    stream_waits = true;
    while (written < used) {
        ssize_t now = write(file, buffer + written, used - written);
        if (now < 0 && errno == EINTR) {
            continue;
        }
        if (now <= 0) {
            /* The reader has exited, or the disk is full. An incomplete trace is useless. */
            fprintf(stderr, "qemu-trace: cannot write the stream: %s\n", strerror(errno));
            _exit(3);
        }
        written += (uint64_t)now;
    }
    used = 0;
    stream_waits = false;
}

void stream_room(void)
{
    if (used + RECORD_BYTES_MAX > BUFFER_BYTES) {
        stream_flush();
    }
}

void put_byte(uint8_t byte)
{
    buffer[used++] = byte;
}

void put_number(uint64_t number)
{
    while (number >= 0x80) {
        buffer[used++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    buffer[used++] = (uint8_t)number;
}

void put_difference(uint64_t from, uint64_t to)
{
    uint64_t difference = to - from;

    /* The sign is in the lowest bit, so that small negative differences are short too. */
    put_number((difference << 1) ^ (0 - (difference >> 63)));
}

void put_bytes(const void *bytes, uint64_t length)
{
    const uint8_t *from = bytes;

    while (length > 0) {
        uint64_t now = length < RECORD_BYTES_MAX / 2 ? length : RECORD_BYTES_MAX / 2;
        stream_room();
        memcpy(buffer + used, from, now);
        used += now;
        from += now;
        length -= now;
    }
}
