/* Interposes functions of the C library that QEMU calls; this library is preloaded.
 *
 * Devices use memcpy and memmove to read and write the guest's RAM (address_space_read and _write). QEMU's "log" trace back end uses
 * __vfprintf_chk for each trace event. Interposing them observes both in the thread in which they happen, between the same two
 * instructions in every replay.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "device.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "isa.h"
#include "stream.h"

#define EXPORT __attribute__((visibility("default")))
/* Name of the mapping of the guest's RAM, a memory-backend-memfd. */
#define RAM_MAPPING "memfd:memory-backend-memfd"

static uintptr_t ram_base;
static uint64_t ram_size;

bool ram_find(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps && fgets(line, sizeof(line), maps)) {
        unsigned long from, to;
        if (strstr(line, RAM_MAPPING) && sscanf(line, "%lx-%lx", &from, &to) == 2 && to - from > ram_size) {
            ram_base = from;
            ram_size = to - from;
        }
    }
    if (maps) {
        fclose(maps);
    }
    return ram_size != 0 && ram_size <= isa_ram_bytes_max;
}

uint64_t ram_bytes(void)
{
    return ram_size;
}

bool ram_physical(const void *host, uint64_t *physical)
{
    uint64_t offset = (uintptr_t)host - ram_base;

    *physical = isa_ram_base + offset;
    return offset < ram_size;
}

bool ram_read(uint64_t physical, uint64_t *value)
{
    uint64_t offset = physical - isa_ram_base;

    if (offset > ram_size || ram_size - offset < sizeof(*value)) {
        return false;
    }
    *value = *(const uint64_t *)(ram_base + offset);
    return true;
}

static void transfer(bool is_write, const void *host, size_t length)
{
    uint64_t physical;

    if (length > 0 && ram_physical(host, &physical)) {
        struct event event = { .record = RECORD_DMA, .kind = is_write, .arguments = 2, .argument = { physical, length } };
        device_happened(&event);
    }
}

typedef void *move_function(void *, const void *, size_t);

/* Used until the C library's functions have been found, as the search may itself copy bytes. */
static void *by_bytes(void *to, const void *from, size_t length)
{
    volatile unsigned char *write = to;
    const volatile unsigned char *read = from;

    for (size_t done = 0; done < length; done++) {
        size_t at = write <= read ? done : length - 1 - done;
        write[at] = read[at];
    }
    return to;
}

static move_function *real_memcpy = by_bytes;
static move_function *real_memmove = by_bytes;

static void *moved(move_function *how, void *to, const void *from, size_t length)
{
    transfer(false, from, length);
    how(to, from, length);
    transfer(true, to, length);
    return to;
}

EXPORT void *memcpy(void *to, const void *from, size_t length);
EXPORT void *memmove(void *to, const void *from, size_t length);
EXPORT int __vfprintf_chk(FILE *file, int flag, const char *format, va_list arguments);

void *memcpy(void *to, const void *from, size_t length)
{
    return moved(real_memcpy, to, from, length);
}

void *memmove(void *to, const void *from, size_t length)
{
    return moved(real_memmove, to, from, length);
}

/* A trace event of QEMU and the types of its arguments: i for int, l for long (any eight bytes), L for a long that is not emitted, and
 * 0 for an absent argument, emitted as 0. */
struct traced_event {
    const char *name;
    uint8_t kind;
    const char *arguments;
};

#define KIND_CONSOLE DEVICE_EVENTS

static const struct traced_event TRACED[] = {
    { "e1000e_core_write", DEVICE_REGISTER, "lil" },
    { "e1000e_rx_receive_iov", DEVICE_RX_FRAME, "" },
    { "e1000e_rx_descr", DEVICE_RX_DESCRIPTOR, "ili" },
    { "e1000e_rx_desc_buff_write", DEVICE_RX_BUFFER, "iliLi" },
    { "igb_rx_desc_buff_write", DEVICE_RX_BUFFER, "iliLi" },
    { "e1000e_rx_written_to_guest", DEVICE_RX_DONE, "i" },
    { "e1000e_rx_not_written_to_guest", DEVICE_RX_DROPPED, "" },
    { "e1000e_rx_flt_dropped", DEVICE_RX_DROPPED, "" },
    { "e1000e_tx_descr", DEVICE_TX_DESCRIPTOR, "lii" },
    { "e1000e_irq_msix_notify_vec", DEVICE_MSIX, "i" },
    /* Sent now, after a delay by the NIC's interrupt throttling. */
    { "e1000e_irq_msix_notify_postponed_vec", DEVICE_MSIX, "i" },
    { "e1000e_irq_msi_notify", DEVICE_MSI, "i" },
    { "e1000e_irq_msi_notify_postponed", DEVICE_MSI, "0" },
    { "e1000e_irq_legacy_notify", DEVICE_LINE, "i" },
    { "serial_write", KIND_CONSOLE, "ii" },
    { "pl011_write", KIND_CONSOLE, "ii" },
};

static const struct traced_event *find_traced(const char *format)
{
    size_t length = strcspn(format, " \n");

    for (size_t at = 0; at < sizeof(TRACED) / sizeof(TRACED[0]); at++) {
        if (strlen(TRACED[at].name) == length && !strncmp(TRACED[at].name, format, length)) {
            return &TRACED[at];
        }
    }
    return NULL;
}

static void put_traced(const struct traced_event *traced, va_list arguments)
{
    struct event event = { .record = RECORD_DEVICE, .kind = traced->kind };

    for (const char *how = traced->arguments; *how; how++) {
        uint64_t value = 0;
        if (*how == 'i') {
            value = va_arg(arguments, unsigned int);
        } else if (*how != '0') {
            value = va_arg(arguments, uint64_t);
        }
        if (*how != 'L') {
            event.argument[event.arguments++] = value;
        }
    }
    if (traced->kind != KIND_CONSOLE) {
        device_happened(&event);
    } else if (event.argument[0] == 0) {
        console_printed((char)event.argument[1]);
    }
}

int __vfprintf_chk(FILE *file, int flag, const char *format, va_list arguments)
{
    const struct traced_event *traced = find_traced(format);

    (void)flag;
    if (traced) {
        va_list copy;
        va_copy(copy, arguments);
        put_traced(traced, copy);
        va_end(copy);
        return 0;
    }
    return vfprintf(file, format, arguments);
}

__attribute__((constructor)) static void find_real(void)
{
    void *found_memcpy = dlsym(RTLD_NEXT, "memcpy"), *found_memmove = dlsym(RTLD_NEXT, "memmove");

    *(void **)&real_memcpy = found_memcpy;
    *(void **)&real_memmove = found_memmove;
}
