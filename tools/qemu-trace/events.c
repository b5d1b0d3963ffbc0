/* See events.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "events.h"

#include <pthread.h>
#include <stdlib.h>

#include "device.h"
#include "plugin.h"
#include "stream.h"

#define NIC_REGISTERS (1u << 15)

/* Last values written by software, by address / 4. */
static struct {
    uint32_t value;
    bool is_set;
} registers[NIC_REGISTERS];

/* Events in other threads since the start of the last block. These threads run only while the CPU's thread does not. */
static struct {
    pthread_mutex_t lock;
    struct event *events;
    size_t used, room;
} queued = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void put_event(const struct event *event)
{
    stream_room();
    put_byte(event->record);
    put_byte(event->kind);
    put_number(event->count - window.block_begun);
    for (int at = 0; at < event->arguments; at++) {
        put_number(event->argument[at]);
    }
}

static void queue_event(const struct event *event)
{
    pthread_mutex_lock(&queued.lock);
    if (queued.used == queued.room) {
        queued.room = queued.room ? 2 * queued.room : 64;
        queued.events = realloc(queued.events, queued.room * sizeof(struct event));
        if (!queued.events) {
            fail("out of memory");
        }
    }
    queued.events[queued.used] = *event;
    __atomic_store_n(&queued.used, queued.used + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&queued.lock);
}

void put_queued_events(void)
{
    if (!__atomic_load_n(&queued.used, __ATOMIC_ACQUIRE)) {
        return;
    }
    pthread_mutex_lock(&queued.lock);
    for (size_t at = 0; at < queued.used; at++) {
        put_event(&queued.events[at]);
    }
    __atomic_store_n(&queued.used, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&queued.lock);
}

void device_happened(struct event *event)
{
    if (event->record == RECORD_DEVICE && event->kind == DEVICE_REGISTER) {
        uint64_t place = event->argument[0] / 4;
        if (place < NIC_REGISTERS) {
            registers[place].value = (uint32_t)event->argument[2];
            registers[place].is_set = true;
        }
    }
    if (!window.is_open) {
        return;
    }
    event->count = *cpu.count;
    if (pthread_equal(pthread_self(), cpu.thread)) {
        put_event(event);
    } else {
        queue_event(event);
    }
}

void put_nic_registers(uint64_t count)
{
    for (uint64_t place = 0; place < NIC_REGISTERS; place++) {
        if (registers[place].is_set) {
            struct event event = { .count = count, .record = RECORD_DEVICE, .kind = DEVICE_REGISTER, .arguments = 3 };
            event.argument[0] = place * 4;
            event.argument[1] = 4;
            event.argument[2] = registers[place].value;
            put_event(&event);
        }
    }
}
