/* Writes down what an x86-64 guest executes under QEMU, and what its devices do beside it, as a raw stream.
 *
 * Copyright (C) the Doorbell developers
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * This is a TCG plugin (docs/devel/tcg-plugins.rst in QEMU), a program of its own beside the simulator. The same library is also
 * preloaded, for device.c. It knows one virtual CPU, QEMU's plugin interface 4, and RAM that is one memory-backend-memfd.
 *
 *     qemu-system-x86_64 -plugin LIBRARY,out=FILE,length=N[,skip=N][,mark=TEXT] -trace ...
 *
 * The window begins `skip` instructions after reset, or after the guest's first serial port has printed TEXT, and has `length`
 * instructions and what is left of the last block. Behind it QEMU is ended.
 *
 * The stream. Numbers are of seven bits a byte, lowest first, the highest bit of a byte saying that more follow; a *difference*
 * is a number whose lowest bit is the sign (zigzag). It begins with STREAM_MAGIC and the number of bytes of RAM. Then records, the
 * first byte of which says of which kind:
 *
 *  RECORD_END       instructions in the window
 *  RECORD_BEGIN     instructions since reset: the window begins. What stands before are the NIC's registers as software had set them
 *  RECORD_AGAIN     a block is executed: the one that followed the last one when that was executed last
 *  RECORD_BLOCK     a block is executed: its number
 *  RECORD_DEFINE    a block is executed, and gets the next number, from 0: virtual address, physical address + 1 of its first byte and
 *                   of its last instruction (0 if it is not in RAM), how many instructions; of each its length (a byte) and its bytes;
 *                   and the walk of its virtual address (as below)
 *  RECORD_CUT       of the last block only so many instructions were begun
 *  RECORD_STATE     before a block: privilege level (a byte; bit 2: 64-bit mode), CR3
 *  RECORD_IDLE      the CPU waits for an interrupt
 *  RECORD_DMA       by a device: 1 if it writes RAM (a byte), instructions of the last block that had begun, physical address, bytes
 *  RECORD_DEVICE    which event (enum device_event; a byte), instructions of the last block that had begun, its arguments
 *  ACCESS | bits    of the last block's instruction that stands ACCESS_FURTHER behind the one of the last access (a number, if that
 *                   bit is set): the difference of its virtual address from the one of this instruction's last access (0 at first).
 *                   ACCESS_PAGE: then the physical page (address / 4096) and its walk; else the page is the one that was told last
 *                   among those whose virtual page has the same lowest PAGE_BITS bits, and is of this virtual page.
 *                   ACCESS_IO: no page, but the physical address and the value
 *
 * A walk is how many entries of page tables it reads (a byte, 0 if it is not known), and their physical addresses / 8. A page that is
 * told a second time has none.
 *
 * An instruction that faults had begun, and begins again afterwards. One with a REP prefix may begin several times. An access comes
 * after what it made a device do.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <qemu-plugin.h>

#include "device.h"
#include "stream.h"

#if QEMU_PLUGIN_VERSION < 4
#error "this needs QEMU's plugin interface 4: QEMU 10.0"
#endif

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

#define PAGE_SHIFT 12
#define PAGE_BITS 14
#define PAGES (1u << PAGE_BITS)
#define NO_PAGE UINT64_MAX
#define HASH_BITS 18
#define INSTRUCTION_BYTES_MAX 15
#define WALK_MAX 4
#define NIC_REGISTERS (1u << 15)

/* What makes the privilege level or the address space another one behind it. */
enum ends { ENDS_PLAINLY, ENDS_OTHERWISE };

struct block {
    struct block *next_of_hash, *successor;
    uint64_t hash, number, address, first, last;
    /* Of each instruction: where its last access was. */
    uint64_t *accessed;
    /* Of each instruction a byte, its length, and its bytes. */
    uint8_t *text;
    uint32_t text_bytes, instructions;
    enum ends ends;
    bool is_defined;
};

struct page {
    uint64_t virtual, physical;
};

static struct {
    uint64_t skip, length;
    const char *mark;
} asked;

static struct {
    /* Instructions begun since reset. QEMU adds to it. */
    volatile uint64_t *count;
    struct qemu_plugin_register *cs, *cr3, *efer;
    GByteArray *value;
    pthread_t thread;
    bool is_known;
} cpu;

static struct {
    bool is_open;
    uint64_t from, begun, blocks;
    struct block *block;
    /* Instructions begun before the block, and the one of it that accessed memory last. */
    uint64_t block_begun, accessing;
    uint64_t cr3;
    uint8_t level;
    size_t matched;
} window;

/* One number for the one CPU: `cpu.count`. */
static struct qemu_plugin_scoreboard *counts;
static struct block *hashed[1u << HASH_BITS];
static struct page pages[PAGES];
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

static void fail(const char *why)
{
    fprintf(stderr, "qemu-trace: %s\n", why);
    _exit(3);
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (!memory) {
        fail("no memory");
    }
    return memory;
}

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

static void put_elsewhere(void)
{
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

/* The mark's first characters may be repeated in it only as far as a console's lines need. */
void console_printed(char character)
{
    if (!asked.mark || window.from != UINT64_MAX) {
        return;
    }
    if (character != asked.mark[window.matched]) {
        window.matched = 0;
    }
    if (character == asked.mark[window.matched] && !asked.mark[++window.matched]) {
        window.from = *cpu.count + asked.skip;
    }
}

static uint64_t read_register(struct qemu_plugin_register *handle)
{
    uint64_t value = 0;
    int bytes;

    g_byte_array_set_size(cpu.value, 0);
    bytes = qemu_plugin_read_register(handle, cpu.value);
    if (bytes <= 0 || bytes > (int)sizeof(value)) {
        fail("a register cannot be read");
    }
    memcpy(&value, cpu.value->data, (size_t)bytes);
    return value;
}

static void put_state(bool always)
{
    /* EFER.LMA; a 32-bit program in 64-bit mode is not told apart. */
    uint8_t level = (uint8_t)((read_register(cpu.cs) & 3) | (read_register(cpu.efer) >> 10 & 1) << 2);
    uint64_t cr3 = read_register(cpu.cr3);

    if (always || level != window.level || cr3 != window.cr3) {
        window.level = level;
        window.cr3 = cr3;
        put_byte(RECORD_STATE);
        put_byte(level);
        put_number(cr3);
    }
}

/* Intel SDM volume 3, 4.5.4: the entries that a walk with four levels reads. */
static void put_walk(uint64_t address)
{
    uint64_t entries[WALK_MAX];
    uint64_t table = window.cr3 & 0x000ffffffffff000;
    uint8_t read = 0;

    for (int shift = 39; shift >= PAGE_SHIFT; shift -= 9) {
        uint64_t value;
        entries[read] = table + (address >> shift & 0x1ff) * 8;
        if (!ram_read(entries[read], &value) || !(value & 1)) {
            read = 0;
            break;
        }
        read++;
        /* PS: the entry maps a large page. */
        if (value & 0x80 && shift <= 30) {
            break;
        }
        table = value & 0x000ffffffffff000;
    }
    put_byte(read);
    for (uint8_t at = 0; at < read; at++) {
        put_number(entries[at] / 8);
    }
}

static void put_definition(struct block *block)
{
    stream_room();
    put_byte(RECORD_DEFINE);
    put_number(block->address);
    put_number(block->first + 1);
    put_number(block->last + 1);
    put_number(block->instructions);
    put_bytes(block->text, block->text_bytes);
    stream_room();
    put_walk(block->address);
    block->number = window.blocks++;
    block->is_defined = true;
}

static void put_block(struct block *block)
{
    if (!block->is_defined) {
        put_definition(block);
    } else if (window.block && window.block->successor == block) {
        put_byte(RECORD_AGAIN);
        return;
    } else {
        put_byte(RECORD_BLOCK);
        put_number(block->number);
    }
    if (window.block) {
        window.block->successor = block;
    }
}

static void begin(uint64_t count)
{
    window.is_open = true;
    window.begun = window.block_begun = count;
    put_bytes(STREAM_MAGIC, strlen(STREAM_MAGIC));
    stream_room();
    put_number(ram_bytes());
    for (uint64_t place = 0; place < NIC_REGISTERS; place++) {
        if (registers[place].is_set) {
            struct event event = { .count = count, .record = RECORD_DEVICE, .kind = DEVICE_REGISTER, .arguments = 3 };
            event.argument[0] = place * 4;
            event.argument[1] = 4;
            event.argument[2] = registers[place].value;
            put_event(&event);
        }
    }
    stream_room();
    put_byte(RECORD_BEGIN);
    put_number(count);
    put_state(true);
}

static void end(uint64_t count)
{
    stream_room();
    put_byte(RECORD_END);
    put_number(count - window.begun);
    stream_flush();
}

/* How many instructions of the last block began is known only now. */
static void close_block(uint64_t count)
{
    if (__atomic_load_n(&elsewhere.used, __ATOMIC_ACQUIRE)) {
        put_elsewhere();
    }
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
    if (!window.is_open) {
        if (count < window.from) {
            return;
        }
        begin(count);
    } else {
        close_block(count);
        if (count - window.begun >= asked.length) {
            end(count);
            /* Nothing is left to be saved, and other threads may be at work. */
            _exit(0);
        }
        if (before->ends == ENDS_OTHERWISE || (int64_t)(before->address ^ block->address) < 0) {
            put_state(false);
        }
    }
    put_block(block);
    window.block = block;
    window.block_begun = count;
    window.accessing = 0;
}

static void put_io(const struct qemu_plugin_hwaddr *where, qemu_plugin_meminfo_t info)
{
    qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);
    uint64_t low = value.data.u64;

    switch (value.type) {
    case QEMU_PLUGIN_MEM_VALUE_U8: low = value.data.u8; break;
    case QEMU_PLUGIN_MEM_VALUE_U16: low = value.data.u16; break;
    case QEMU_PLUGIN_MEM_VALUE_U32: low = value.data.u32; break;
    default: break;
    }
    put_number(qemu_plugin_hwaddr_phys_addr(where));
    put_number(low);
}

static void accessed(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    const struct qemu_plugin_hwaddr *where;
    struct block *block = window.block;
    uint64_t instruction, page = address >> PAGE_SHIFT, physical = NO_PAGE;
    struct page *told = &pages[page % PAGES];
    uint8_t first;

    (void)index;
    (void)data;
    if (!window.is_open) {
        return;
    }
    first = (uint8_t)(ACCESS | qemu_plugin_mem_size_shift(info) << ACCESS_SIZE_SHIFT | qemu_plugin_mem_is_store(info));
    instruction = *cpu.count - window.block_begun - 1;
    if (instruction >= block->instructions) {
        fail("an access of no instruction");
    }
    where = qemu_plugin_get_hwaddr(info, address);
    if (where && qemu_plugin_hwaddr_is_io(where)) {
        first |= ACCESS_IO;
    } else {
        physical = where ? qemu_plugin_hwaddr_phys_addr(where) >> PAGE_SHIFT : NO_PAGE;
        first |= told->virtual == page && told->physical == physical ? 0 : ACCESS_PAGE;
    }
    first |= instruction == window.accessing ? 0 : ACCESS_FURTHER;
    stream_room();
    put_byte(first);
    if (first & ACCESS_FURTHER) {
        put_difference(window.accessing, instruction);
        window.accessing = instruction;
    }
    put_difference(block->accessed[instruction], address);
    block->accessed[instruction] = address;
    if (first & ACCESS_IO) {
        put_io(where, info);
    } else if (first & ACCESS_PAGE) {
        *told = (struct page){ page, physical };
        put_number(physical);
        put_walk(address);
    }
}

static enum ends ends(const uint8_t *bytes, size_t length)
{
    size_t at = 0;

    /* Prefixes: operand size, segments, REP, and REX. */
    while (at < length && (bytes[at] == 0x66 || bytes[at] == 0x2e || bytes[at] == 0x3e || bytes[at] == 0x64 || bytes[at] == 0x65
                           || bytes[at] == 0xf2 || bytes[at] == 0xf3 || (bytes[at] & 0xf0) == 0x40)) {
        at++;
    }
    if (at >= length) {
        return ENDS_PLAINLY;
    }
    if (bytes[at] == 0x0f && at + 1 < length) {
        /* SYSCALL, SYSRET, SYSENTER, SYSEXIT, MOV to a control register, WRMSR. */
        uint8_t second = bytes[at + 1];
        bool is_one = second == 0x05 || second == 0x07 || second == 0x34 || second == 0x35 || second == 0x22 || second == 0x30;
        return is_one ? ENDS_OTHERWISE : ENDS_PLAINLY;
    }
    /* IRET, INT n, INT3, far returns. */
    return (bytes[at] >= 0xca && bytes[at] <= 0xcf) ? ENDS_OTHERWISE : ENDS_PLAINLY;
}

static uint64_t physical_of(const struct qemu_plugin_insn *instruction)
{
    uint64_t physical;

    return ram_physical(qemu_plugin_insn_haddr(instruction), &physical) ? physical : UINT64_MAX;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const struct block *block)
{
    uint64_t hash = 0xcbf29ce484222325 ^ block->address ^ block->first << 20;

    for (uint32_t at = 0; at < block->text_bytes; at++) {
        hash = (hash ^ block->text[at]) * 0x100000001b3;
    }
    return hash ^ hash >> 32;
}

static bool are_same(const struct block *one, const struct block *other)
{
    return one->hash == other->hash && one->address == other->address && one->first == other->first && one->last == other->last
        && one->text_bytes == other->text_bytes && !memcmp(one->text, other->text, one->text_bytes);
}

/* What was translated before, or this. QEMU forgets and translates again as it pleases; numbers must not depend on that. */
static struct block *keep(const struct block *block)
{
    struct block **bucket = &hashed[block->hash % (1u << HASH_BITS)], *kept;

    for (struct block *old = *bucket; old; old = old->next_of_hash) {
        if (are_same(old, block)) {
            return old;
        }
    }
    kept = allocate(sizeof(*kept));
    *kept = *block;
    kept->text = allocate(block->text_bytes);
    memcpy(kept->text, block->text, block->text_bytes);
    kept->accessed = allocate(block->instructions * sizeof(uint64_t));
    kept->next_of_hash = *bucket;
    *bucket = kept;
    return kept;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    uint8_t *text = allocate(instructions * (1 + INSTRUCTION_BYTES_MAX));
    struct block block = { .address = qemu_plugin_tb_vaddr(tb), .text = text, .instructions = (uint32_t)instructions };
    qemu_plugin_u64 count = qemu_plugin_scoreboard_u64(counts);

    (void)id;
    for (size_t at = 0; at < instructions; at++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, at);
        uint8_t *bytes = text + block.text_bytes + 1;
        size_t length = qemu_plugin_insn_data(instruction, bytes, INSTRUCTION_BYTES_MAX);
        bytes[-1] = (uint8_t)length;
        block.text_bytes += (uint32_t)length + 1;
        block.last = physical_of(instruction);
        block.first = at == 0 ? block.last : block.first;
        block.ends = ends(bytes, length);
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(instruction, QEMU_PLUGIN_INLINE_ADD_U64, count, 1);
        qemu_plugin_register_vcpu_mem_cb(instruction, accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
    }
    block.hash = hash_of(&block);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, block_begins, QEMU_PLUGIN_CB_R_REGS, keep(&block));
    free(text);
}

static void idles(qemu_plugin_id_t id, unsigned int index)
{
    (void)id;
    (void)index;
    if (window.is_open) {
        close_block(*cpu.count);
        put_byte(RECORD_IDLE);
    }
}

static struct qemu_plugin_register *find_register(const GArray *all, const char *name)
{
    const qemu_plugin_reg_descriptor *each = (const void *)all->data;

    for (unsigned int at = 0; at < all->len; at++) {
        if (!strcmp(each[at].name, name)) {
            return each[at].handle;
        }
    }
    fail("the CPU lacks a register");
    return NULL;
}

static void cpu_starts(qemu_plugin_id_t id, unsigned int index)
{
    GArray *all = qemu_plugin_get_registers();

    (void)id;
    if (index != 0) {
        fail("there is more than one CPU");
    }
    if (!ram_find()) {
        fail("the guest's RAM is no memory-backend-memfd of at most 2 GiB");
    }
    cpu.count = qemu_plugin_scoreboard_find(counts, 0);
    cpu.cs = find_register(all, "cs");
    cpu.cr3 = find_register(all, "cr3");
    cpu.efer = find_register(all, "efer");
    cpu.value = g_byte_array_new();
    cpu.thread = pthread_self();
    cpu.is_known = true;
    g_array_free(all, 1);
}

/* The guest has powered off, or the recording is over. */
static void ends_by_itself(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    if (!window.is_open) {
        fprintf(stderr, "qemu-trace: the window never began, in %" PRIu64 " instructions\n", cpu.count ? *cpu.count : 0);
        _exit(4);
    }
    close_block(*cpu.count);
    end(*cpu.count);
}

static bool understand(char *option)
{
    char *value = strchr(option, '=');

    if (!value) {
        return false;
    }
    *value++ = '\0';
    if (!strcmp(option, "out")) {
        return stream_open(value);
    } else if (!strcmp(option, "skip")) {
        asked.skip = strtoull(value, NULL, 10);
    } else if (!strcmp(option, "length")) {
        asked.length = strtoull(value, NULL, 10);
    } else if (!strcmp(option, "mark")) {
        asked.mark = strdup(value);
    } else {
        return false;
    }
    return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    if (strcmp(info->target_name, "x86_64") || !info->system_emulation) {
        fprintf(stderr, "qemu-trace: this is for qemu-system-x86_64\n");
        return 1;
    }
    for (int at = 0; at < argc; at++) {
        if (!understand(argv[at])) {
            fprintf(stderr, "qemu-trace: %s is of no use\n", argv[at]);
            return 1;
        }
    }
    window.from = asked.mark ? UINT64_MAX : asked.skip;
    memset(pages, 0xff, sizeof(pages));
    counts = qemu_plugin_scoreboard_new(sizeof(uint64_t));
    qemu_plugin_register_vcpu_init_cb(id, cpu_starts);
    qemu_plugin_register_vcpu_idle_cb(id, idles);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ends_by_itself, NULL);
    return 0;
}
