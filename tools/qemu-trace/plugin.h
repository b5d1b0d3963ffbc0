/* State shared by the plugin's parts: the CPU and the recorded window.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_PLUGIN_H
#define QEMU_TRACE_PLUGIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isa.h"

struct block;

/* The only virtual CPU: instructions started since reset (updated by QEMU), and its thread. */
struct cpu {
    volatile uint64_t *count;
    pthread_t thread;
};

struct window {
    bool is_open;
    /* The executing block, the instruction count at its start, and the index of its instruction that last accessed memory. */
    struct block *block;
    uint64_t block_begun, accessing;
    /* Last emitted mode. */
    struct mode mode;
};

extern struct cpu cpu;
extern struct window window;

/* Whether an address is in the kernel's half of the address space, as on all of Linux's 64-bit instruction sets. */
static inline bool is_kernel(uint64_t address)
{
    return address >> 63;
}

/* Prints an error and exits QEMU. */
void fail(const char *why) __attribute__((noreturn));
/* Allocates zeroed memory. */
void *allocate(size_t bytes);

#endif
