/* Reading a packet's bytes, as a program that looks into payloads does. */
#ifndef DOORBELL_TOUCH_H
#define DOORBELL_TOUCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rte_mbuf.h>

/* Bytes that a load takes: 1, as in a loop over bytes, or 8. */
#define TOUCH_OPTION(value)                                                                                            \
    {                                                                                                                  \
        "load-bytes", "bytes that each load of a packet takes, 1 or 8", value, 1, 8                                    \
    }

static inline uint64_t touch_bytes(const uint8_t *at, const uint8_t *end)
{
    uint64_t sum = 0;

    for (; at < end; at++)
        sum += *at;
    return sum;
}

/* The sum of all bytes of all segments: every byte is loaded, once. With `load_bytes` of 8 words are summed up where
 * they are aligned, as a packet's data usually are. */
static inline uint64_t touch(const struct rte_mbuf *packet, uint64_t load_bytes)
{
    uint64_t sum = 0;

    for (; packet; packet = packet->next) {
        const uint8_t *at = rte_pktmbuf_mtod(packet, const uint8_t *);
        const uint8_t *end = at + packet->data_len;

        if (load_bytes == sizeof(uint64_t) && (uintptr_t)at % sizeof(uint64_t) == 0) {
            for (; end - at >= (ptrdiff_t)sizeof(uint64_t); at += sizeof(uint64_t)) {
                uint64_t word;

                /* Without the hint a machine that may not load unaligned words would load bytes. */
                memcpy(&word, __builtin_assume_aligned(at, sizeof(uint64_t)), sizeof(word));
                sum += word;
            }
        }
        sum += touch_bytes(at, end);
    }
    return sum;
}

#endif
