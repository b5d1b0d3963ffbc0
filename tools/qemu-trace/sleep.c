/* See sleep.h.
 *
 * With -icount the guest's clock is the time of the executed instructions plus QEMU's "bias": the time that the CPU slept until a timer or a
 * device woke it, as recorded. QEMU does not report the bias to plugins, but has functions for both times. They are called in a thread of
 * their own, as a CPU's thread may read the clock only during an instruction that accesses a device.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "sleep.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "plugin.h"

/* accel/tcg/icount-common.c in QEMU. */
static int64_t (*time_now)(void), (*instructions_now)(void), (*time_of)(int64_t instructions);

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_requested;
    int64_t bias;
} clock_thread = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static int64_t last_bias;

static void *read_clock(void *data)
{
    pthread_mutex_lock(&clock_thread.lock);
    for (;;) {
        while (!clock_thread.is_requested) {
            pthread_cond_wait(&clock_thread.changed, &clock_thread.lock);
        }
        clock_thread.bias = time_now() - time_of(instructions_now());
        clock_thread.is_requested = false;
        pthread_cond_broadcast(&clock_thread.changed);
    }
    return data;
}

static int64_t bias(void)
{
    pthread_mutex_lock(&clock_thread.lock);
    clock_thread.is_requested = true;
    pthread_cond_broadcast(&clock_thread.changed);
    while (clock_thread.is_requested) {
        pthread_cond_wait(&clock_thread.changed, &clock_thread.lock);
    }
    pthread_mutex_unlock(&clock_thread.lock);
    return clock_thread.bias;
}

void sleep_begin(void)
{
    pthread_t thread;

    *(void **)&time_now = dlsym(RTLD_DEFAULT, "icount_get");
    *(void **)&instructions_now = dlsym(RTLD_DEFAULT, "icount_get_raw");
    *(void **)&time_of = dlsym(RTLD_DEFAULT, "icount_to_ns");
    if (!time_now || !instructions_now || !time_of || pthread_create(&thread, NULL, read_clock, NULL)) {
        fail("cannot read QEMU's clock: this QEMU does not export icount_get, or no thread can be started");
    }
    last_bias = bias();
}

uint64_t slept(void)
{
    int64_t now = bias(), before = last_bias;

    last_bias = now;
    return now > before ? (uint64_t)(now - before) : 0;
}
