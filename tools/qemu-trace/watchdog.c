/* See watchdog.h.
 *
 * If a replay diverges from its record, QEMU silently waits forever for an event of the record. A thread checks the number of started
 * instructions every second. If it is unchanged in LOOKS_MAX successive checks, during which the stream did not wait for its reader, QEMU
 * exits. The thread counts checks instead of time, as it does not run either while the host is busy or the process is stopped.
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
    fprintf(stderr, "qemu-trace: the replay hangs after instruction %" PRIu64 ": it differs from the record because the image, QEMU or the CPU has "
            "changed, or the record is damaged; record it again (--again)\n", last);
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
