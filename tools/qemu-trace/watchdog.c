/* See watchdog.h.
 *
 * A replay of something else than was recorded comes to where QEMU waits for ever for an event that the record has, without a word. A
 * thread looks every second how many instructions have begun; when that has been the same for so many looks, in none of which the stream
 * waited for its reader, QEMU is ended. It counts looks and not time: where the host does other things, or the process was stopped, the thread has not
 * looked either.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "watchdog.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "plugin.h"
#include "stream.h"

#ifndef LOOKS_MAX
#define LOOKS_MAX 180
#endif

static void *watch(void *data)
{
    uint64_t last = 0;

    for (unsigned int still = 0; still < LOOKS_MAX;) {
        uint64_t now;
        sleep(1);
        now = cpu.count ? *cpu.count : 0;
        still = now == last && !stream_waits ? still + 1 : 0;
        last = now;
    }
    fprintf(stderr, "qemu-trace: the replay stands still behind instruction %" PRIu64 ": it does something else than was recorded, because the image, "
            "QEMU or the CPU is another one, or the record is damaged; record it again (--again)\n", last);
    _exit(5);
    return data;
}

void watchdog_begin(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, watch, NULL)) {
        fail("no thread can be started");
    }
}
