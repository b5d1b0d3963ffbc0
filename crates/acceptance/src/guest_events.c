/* Counts events of three loops with perf_event_open, and prints one line per event: loop, name and count. */
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
} EVENTS[] = {
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"L1-dcache-load-misses", PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_L1D | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
    {"dTLB-load-misses", PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
    {"slots", PERF_TYPE_RAW, 0x100},
    {"retiring", PERF_TYPE_RAW, 0x101},
    {"bad_speculation", PERF_TYPE_RAW, 0x102},
    {"frontend_bound", PERF_TYPE_RAW, 0x103},
    {"backend_bound", PERF_TYPE_RAW, 0x104},
    {"divider", PERF_TYPE_RAW, 0x130},
    {"loads_l2", PERF_TYPE_RAW, 0x202},
    {"loads_llc", PERF_TYPE_RAW, 0x203},
    {"loads_dram", PERF_TYPE_RAW, 0x205},
};
enum { COUNT = sizeof EVENTS / sizeof *EVENTS, DIVISIONS = 20000, BRANCHES = 40000, LINKS = 20000 };

static uint64_t table[16 << 20 >> 3];

static void divide(void)
{
    uint64_t value = 1ull << 60;
    for (int i = 0; i < DIVISIONS; i++)
        __asm__ volatile("div %0, %0, %1\n\tori %0, %0, 0x100" : "+r"(value) : "r"(3ull));
}

static void branch(void)
{
    uint64_t random = 88172645463325252ull;
    for (int i = 0; i < BRANCHES; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        if (random & 1)
            __asm__ volatile("nop");
    }
}

/* One line per access, in an order that no prefetcher predicts. */
static void chase(void)
{
    uint64_t at = 0;
    for (int i = 0; i < LINKS; i++)
        at = ((volatile uint64_t *)table)[at];
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } LOOPS[] = {{"divide", divide}, {"branch", branch}, {"chase", chase}};
    const uint64_t lines = sizeof table / 64;
    for (uint64_t line = 0; line < lines; line++)
        table[line * 8] = (line * 5 + 12345) % lines * 8;
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) {
        struct perf_event_attr attr = {.size = sizeof attr, .type = EVENTS[i].type, .config = EVENTS[i].config, .disabled = i == 0};
        fds[i] = (int)syscall(SYS_perf_event_open, &attr, 0, -1, i ? fds[0] : -1, 0);
        if (fds[i] < 0)
            return fail(EVENTS[i].name);
    }
    for (unsigned loop = 0; loop < sizeof LOOPS / sizeof *LOOPS; loop++) {
        ioctl(fds[0], PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
        /* Enable the group leader only: the members follow it. Enabling each member would restart the whole group. */
        ioctl(fds[0], PERF_EVENT_IOC_ENABLE, 0);
        LOOPS[loop].run();
        ioctl(fds[0], PERF_EVENT_IOC_DISABLE, 0);
        for (int i = 0; i < COUNT; i++) {
            uint64_t count;
            if (read(fds[i], &count, sizeof count) != sizeof count)
                return fail("read");
            printf("count %s %s %llu\n", LOOPS[loop].name, EVENTS[i].name, (unsigned long long)count);
        }
    }
    return 0;
}
