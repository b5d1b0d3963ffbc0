/* See sleep.h.
 *
 * With -icount the guest's clock is what the instructions so far count for, and what was added while the CPU slept until a timer or a
 * device woke it: QEMU's "bias", as it was when the guest was recorded. QEMU tells no plugin, but has functions for both. They are to be
 * called by a thread that is no CPU's, as a CPU's may ask for the time only where an instruction that accesses a device does.
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
    bool is_asked;
    int64_t bias;
} clock_thread = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static int64_t told;

static void *answer(void *data)
{
    pthread_mutex_lock(&clock_thread.lock);
    for (;;) {
        while (!clock_thread.is_asked) {
            pthread_cond_wait(&clock_thread.changed, &clock_thread.lock);
        }
        clock_thread.bias = time_now() - time_of(instructions_now());
        clock_thread.is_asked = false;
        pthread_cond_broadcast(&clock_thread.changed);
    }
    return data;
}

static int64_t bias(void)
{
    pthread_mutex_lock(&clock_thread.lock);
    clock_thread.is_asked = true;
    pthread_cond_broadcast(&clock_thread.changed);
    while (clock_thread.is_asked) {
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
    if (!time_now || !instructions_now || !time_of || pthread_create(&thread, NULL, answer, NULL)) {
        fail("this QEMU does not tell its clock: it has no icount_get");
    }
    told = bias();
}

uint64_t slept(void)
{
    int64_t now = bias(), before = told;

    told = now;
    return now > before ? (uint64_t)(now - before) : 0;
}
