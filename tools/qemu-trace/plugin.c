/* Records the instructions of a guest under QEMU, and the activity of its devices, as a raw stream.
 *
 * Copyright (C) the Doorbell developers
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * This is a TCG plugin (docs/devel/tcg-plugins.rst in QEMU), separate from the simulator. The same library is also preloaded, for device.c.
 * It supports one virtual CPU, QEMU's plugin interface 4, and RAM in one memory-backend-memfd.
 *
 *     qemu-system-... -plugin LIBRARY,out=FILE,length=N[,skip=N][,mark=TEXT] -trace ...
 *
 * The window starts `skip` instructions after reset, or after the guest's first serial port has printed TEXT. It has `length` instructions
 * and the rest of the last block; then QEMU exits.
 *
 * This file has the options, the window and QEMU's callbacks. blocks.c records executed blocks, accesses.c their memory accesses. device.c
 * observes devices, and events.c writes their events. stream.h defines the format, and isa.h the interface to the instruction sets.
 */
#include "plugin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <qemu-plugin.h>

#include "accesses.h"
#include "blocks.h"
#include "device.h"
#include "events.h"
#include "isa.h"
#include "registers.h"
#include "sleep.h"
#include "stream.h"
#include "watchdog.h"

#if QEMU_PLUGIN_VERSION < 4
#error "QEMU's plugin interface 4 is required: QEMU 10.0 or newer"
#endif

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static struct {
    uint64_t skip, length;
    const char *mark;
} options;

struct cpu cpu;
struct window window;

/* Requested and actual start of the window, in instructions since reset. */
static uint64_t window_from, window_begun;
/* Number of characters of the mark matched so far. */
static size_t matched;

static struct qemu_plugin_register *program_counter;
/* Holds the instruction count of the only CPU: `cpu.count`. */
static struct qemu_plugin_scoreboard *counts;

void fail(const char *why)
{
    fprintf(stderr, "qemu-trace: %s\n", why);
    _exit(3);
}

void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (!memory) {
        fail("out of memory");
    }
    return memory;
}

/* Matches the mark. After a mismatch it restarts at the current character, which may miss a mark that repeats its beginning. */
void console_printed(char character)
{
    if (!options.mark || window_from != UINT64_MAX) {
        return;
    }
    if (character != options.mark[matched]) {
        matched = 0;
    }
    if (character == options.mark[matched] && !options.mark[++matched]) {
        window_from = *cpu.count + options.skip;
    }
}

static void put_state(bool always)
{
    struct mode mode = isa_mode();

    if (always || mode.flags != window.mode.flags || mode.space != window.mode.space) {
        window.mode = mode;
        put_byte(RECORD_STATE);
        put_byte(mode.flags);
        put_number(mode.space);
    }
}

static void put_trap(uint64_t address)
{
    struct trap trap = isa_trap(address);

    if (trap.is_taken) {
        put_byte(RECORD_TRAP);
        put_byte(trap.is_interrupt);
        put_number(trap.address);
    }
}

static void begin(uint64_t count)
{
    window.is_open = true;
    window_begun = window.block_begun = count;
    put_bytes(STREAM_MAGIC, strlen(STREAM_MAGIC));
    stream_room();
    put_number(ram_bytes());
    put_nic_registers(count);
    stream_room();
    put_byte(RECORD_BEGIN);
    put_number(count);
    put_state(true);
    sleep_begin();
}

static void end(uint64_t count)
{
    stream_room();
    put_byte(RECORD_END);
    put_number(count - window_begun);
    stream_flush();
}

/* Ends the last block: the number of its started instructions is known only now. */
static void close_block(uint64_t count)
{
    put_queued_events();
    stream_room();
    if (window.block && count - window.block_begun != window.block->instructions) {
        put_byte(RECORD_CUT);
        put_number(count - window.block_begun);
    }
}

static void block_begins(unsigned int index, void *data)
{
    struct block *block = data, *before = window.block;
    uint64_t count = *cpu.count;

    (void)index;
    if (window.is_open) {
        close_block(count);
        if (count - window_begun >= options.length) {
            end(count);
            /* Everything is written, and other threads may be running: exit without cleanup. */
            _exit(0);
        }
        if (before->waits && count - window.block_begun == before->waits) {
            uint64_t nanoseconds = slept();
            put_byte(RECORD_SLEPT);
            put_number(nanoseconds);
        }
    } else if (count < window_from) {
        return;
    } else {
        begin(count);
    }
    /* Kernel code has one virtual address. */
    if (!is_kernel(block->address)) {
        block = block_at(block, read_register(program_counter));
    }
    /* With physical addresses, the firmware may be entered without a mode-changing instruction. */
    if (before && (before->changes_mode || is_kernel(before->address ^ block->address) || block->address == block->first)) {
        put_state(false);
    }
    put_trap(block->address);
    put_block(before, block);
    window.block = block;
    window.block_begun = count;
    window.accessing = 0;
}

static void register_clearing(struct qemu_plugin_insn *instruction)
{
    uint8_t bytes[INSTRUCTION_BYTES_MAX];
    size_t length = qemu_plugin_insn_data(instruction, bytes, sizeof(bytes));
    struct qemu_plugin_register *where = isa_clears_at(bytes, length);

    if (where) {
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, clears, QEMU_PLUGIN_CB_R_REGS, where);
    }
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    qemu_plugin_u64 count = qemu_plugin_scoreboard_u64(counts);

    (void)id;
    for (size_t at = 0; at < instructions; at++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, at);
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(instruction, QEMU_PLUGIN_INLINE_ADD_U64, count, 1);
        qemu_plugin_register_vcpu_mem_cb(instruction, accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
        register_clearing(instruction);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, block_begins, QEMU_PLUGIN_CB_R_REGS, block_of(tb));
}

static void cpu_starts(qemu_plugin_id_t id, unsigned int index)
{
    GArray *all = qemu_plugin_get_registers();

    (void)id;
    if (index != 0) {
        fail("the guest has more than one CPU; use -smp 1");
    }
    if (!ram_find()) {
        fail("the guest's RAM is not a memory-backend-memfd, or is larger than the machine's contiguous RAM");
    }
    cpu.count = qemu_plugin_scoreboard_find(counts, 0);
    isa_find_registers(all);
    program_counter = find_program_counter(all);
    cpu.thread = pthread_self();
    g_array_free(all, 1);
}

/* The guest has powered off, or the replayed record has ended. */
static void qemu_exits(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    if (!window.is_open) {
        uint64_t count = cpu.count ? *cpu.count : 0;
        fprintf(stderr, "qemu-trace: the window did not start within %" PRIu64 " instructions: start it earlier, or at a text that the console prints\n",
                count);
        _exit(4);
    }
    close_block(*cpu.count);
    end(*cpu.count);
}

static bool parse_option(char *option)
{
    char *value = strchr(option, '=');

    if (!value) {
        return false;
    }
    *value++ = '\0';
    if (!strcmp(option, "out")) {
        return stream_open(value);
    } else if (!strcmp(option, "skip")) {
        options.skip = strtoull(value, NULL, 10);
    } else if (!strcmp(option, "length")) {
        options.length = strtoull(value, NULL, 10);
    } else if (!strcmp(option, "mark")) {
        options.mark = strdup(value);
    } else {
        return false;
    }
    return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    if (strcmp(info->target_name, isa_target) || !info->system_emulation) {
        fprintf(stderr, "qemu-trace: this plugin was built for qemu-system-%s\n", isa_target);
        return 1;
    }
    for (int at = 0; at < argc; at++) {
        if (!parse_option(argv[at])) {
            fprintf(stderr, "qemu-trace: invalid option %s; use out=FILE, length=N, skip=N and mark=TEXT\n", argv[at]);
            return 1;
        }
    }
    window_from = options.mark ? UINT64_MAX : options.skip;
    forget_pages();
    watchdog_begin();
    counts = qemu_plugin_scoreboard_new(sizeof(uint64_t));
    qemu_plugin_register_vcpu_init_cb(id, cpu_starts);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, qemu_exits, NULL);
    return 0;
}
