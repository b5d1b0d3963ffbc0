/* Reads a packet's bytes, as a program that inspects payloads does. */
#ifndef DOORBELL_TOUCH_H
#define DOORBELL_TOUCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rte_mbuf.h>
#include <rte_prefetch.h>

/* Bytes per load: 1, as in a loop over bytes, or 8. */
#define TOUCH_OPTION(value)                                                                                            \
    {                                                                                                                  \
        "load-bytes", "bytes that each load of a packet takes, 1 or 8", value, 1, 8                                    \
    }

/* Whether to prefetch the first line of the next packet while one is read, as the programs of the gem5
 * study do. */
#define TOUCH_PREFETCH_OPTION(value)                                                                                   \
    {                                                                                                                  \
        "prefetch", "1: ask for the first line of the next packet before one is read", value, 0, 1                     \
    }

/* Prefetches a packet's first line. DPDK's rte_prefetch0() does nothing on RISC-V. Zicbop's `prefetch.r
 * 0(at)` is encoded as an ORI to x0, which every assembler supports and which harts without Zicbop treat
 * as a hint. */
static inline void touch_prefetch(const struct rte_mbuf *packet)
{
    const void *at = rte_pktmbuf_mtod(packet, const void *);

#ifdef __riscv
    __asm__ volatile(".insn i 0x13, 6, x0, %0, 1" : : "r"(at));
#else
    rte_prefetch0(at);
#endif
}

static inline uint64_t touch_bytes(const uint8_t *at, const uint8_t *end)
{
    uint64_t sum = 0;

    for (; at < end; at++)
        sum += *at;
    return sum;
}

/* The sum of all bytes of all segments; every byte is loaded once. If `load_bytes` is 8, aligned words are
 * summed, and packet data is usually aligned. */
static inline uint64_t touch(const struct rte_mbuf *packet, uint64_t load_bytes)
{
    uint64_t sum = 0;

    for (; packet; packet = packet->next) {
        const uint8_t *at = rte_pktmbuf_mtod(packet, const uint8_t *);
        const uint8_t *end = at + packet->data_len;

        if (load_bytes == sizeof(uint64_t) && (uintptr_t)at % sizeof(uint64_t) == 0) {
            for (; end - at >= (ptrdiff_t)sizeof(uint64_t); at += sizeof(uint64_t)) {
                uint64_t word;

                /* Without the hint, byte loads would be generated for machines without unaligned loads. */
                memcpy(&word, __builtin_assume_aligned(at, sizeof(uint64_t)), sizeof(word));
                sum += word;
            }
        }
        sum += touch_bytes(at, end);
    }
    return sum;
}

#endif
