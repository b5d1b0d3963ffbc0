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

/* By address / 4, as software wrote them last. */
static struct {
    uint32_t value;
    bool is_set;
} registers[NIC_REGISTERS];

/* What happened in other threads since the last block began. They run only while the CPU's does not. */
static struct {
    pthread_mutex_t lock;
    struct event *events;
    size_t used, room;
} elsewhere = { .lock = PTHREAD_MUTEX_INITIALIZER };

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

static void keep_elsewhere(const struct event *event)
{
    pthread_mutex_lock(&elsewhere.lock);
    if (elsewhere.used == elsewhere.room) {
        elsewhere.room = elsewhere.room ? 2 * elsewhere.room : 64;
        elsewhere.events = realloc(elsewhere.events, elsewhere.room * sizeof(struct event));
        if (!elsewhere.events) {
            fail("no memory");
        }
    }
    elsewhere.events[elsewhere.used] = *event;
    __atomic_store_n(&elsewhere.used, elsewhere.used + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&elsewhere.lock);
}

void put_elsewhere(void)
{
    if (!__atomic_load_n(&elsewhere.used, __ATOMIC_ACQUIRE)) {
        return;
    }
    pthread_mutex_lock(&elsewhere.lock);
    for (size_t at = 0; at < elsewhere.used; at++) {
        put_event(&elsewhere.events[at]);
    }
    __atomic_store_n(&elsewhere.used, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&elsewhere.lock);
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
        keep_elsewhere(event);
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
