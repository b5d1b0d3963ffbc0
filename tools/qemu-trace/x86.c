/* x86-64 implementation of isa.h. Section numbers refer to Intel's SDM, volume 3.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "isa.h"

#include "device.h"
#include "registers.h"
#include "stream.h"

const char isa_target[] = "x86_64";
const uint64_t isa_ram_base = 0;
/* QEMU's pc machines place further RAM above their PCI window. */
const uint64_t isa_ram_bytes_max = 2ull << 30;

static struct qemu_plugin_register *cs, *cr3, *efer;

void isa_find_registers(const GArray *all)
{
    cs = find_register(all, "cs");
    cr3 = find_register(all, "cr3");
    efer = find_register(all, "efer");
}

struct mode isa_mode(void)
{
    /* EFER.LMA; 32-bit programs in 64-bit mode are not distinguished. */
    bool is_long = read_register(efer) >> 10 & 1, is_privileged = (read_register(cs) & 3) == 0;
    uint8_t flags = (uint8_t)((is_long ? STATE_64_BIT : 0) | (is_privileged ? STATE_PRIVILEGED : 0));

    return (struct mode){ read_register(cr3), flags };
}

bool isa_changes_mode(const uint8_t *bytes, size_t length)
{
    size_t at = 0;

    /* Prefixes: operand size, segments, REP, and REX. */
    while (at < length && (bytes[at] == 0x66 || bytes[at] == 0x2e || bytes[at] == 0x3e || bytes[at] == 0x64 || bytes[at] == 0x65
                           || bytes[at] == 0xf2 || bytes[at] == 0xf3 || (bytes[at] & 0xf0) == 0x40)) {
        at++;
    }
    if (at >= length) {
        return false;
    }
    if (bytes[at] == 0x0f && at + 1 < length) {
        /* SYSCALL, SYSRET, SYSENTER, SYSEXIT, MOV to a control register, WRMSR. */
        uint8_t second = bytes[at + 1];
        return second == 0x05 || second == 0x07 || second == 0x34 || second == 0x35 || second == 0x22 || second == 0x30;
    }
    /* IRET, INT n, INT3, far returns. */
    return bytes[at] >= 0xca && bytes[at] <= 0xcf;
}

/* No register holds the interrupt vector. */
struct trap isa_trap(uint64_t address)
{
    (void)address;
    return (struct trap){ .is_taken = false };
}

bool isa_waits(const uint8_t *bytes, size_t length)
{
    /* HLT. */
    return length == 1 && bytes[0] == 0xf4;
}

#define ENTRY_PRESENT 1
/* PS: the entry maps a large page. */
#define ENTRY_LARGE 0x80
#define ENTRY_ADDRESS 0x000ffffffffff000

/* 4.5.4: a walk with four levels. */
struct walk isa_walk(uint64_t space, uint64_t address)
{
    struct walk walk = { .page_bits = PAGE_SHIFT };
    uint64_t table = space & ENTRY_ADDRESS;

    for (uint8_t shift = 39; shift >= PAGE_SHIFT; shift = (uint8_t)(shift - 9)) {
        uint64_t entry = table + (address >> shift & 0x1ff) * 8, value;
        if (!ram_read(entry, &value) || !(value & ENTRY_PRESENT)) {
            return (struct walk){ .page_bits = PAGE_SHIFT };
        }
        walk.entries[walk.count++] = entry;
        walk.page_bits = shift;
        if (value & ENTRY_LARGE && shift <= 30) {
            break;
        }
        table = value & ENTRY_ADDRESS;
    }
    return walk;
}

struct qemu_plugin_register *isa_clears_at(const uint8_t *bytes, size_t length)
{
    (void)bytes;
    (void)length;
    return NULL;
}
