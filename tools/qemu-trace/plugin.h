/* The window that is written down, and what else the plugin's parts share.
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

/* The one virtual CPU: instructions that it has begun since reset (QEMU adds to it), and its thread. */
struct cpu {
    volatile uint64_t *count;
    pthread_t thread;
};

struct window {
    bool is_open;
    /* The block that is executed, how many instructions had begun before it, and the one of it that accessed memory last. */
    struct block *block;
    uint64_t block_begun, accessing;
    /* As told last. */
    struct mode mode;
};

extern struct cpu cpu;
extern struct window window;

/* Whether an address is in the half that is the operating system's, as Linux has it on all instruction sets. */
static inline bool is_kernel(uint64_t address)
{
    return address >> 63;
}

/* Ends QEMU. */
void fail(const char *why) __attribute__((noreturn));
/* Zeroed memory. */
void *allocate(size_t bytes);

#endif
