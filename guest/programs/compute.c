/* compute: a loop without input or output, for comparison. It walks a table in a random cyclic order
 * (dependent loads) and mixes the loaded words: one load, one multiplication and some ALU operations per
 * step. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 64
#define TABLE_DEFAULT_KIB 256
#define TABLE_MAX_KIB (1 << 20)

/* A cache line: the next index, and an operand. */
struct line {
    uint32_t next;
    uint32_t value;
    uint8_t rest[LINE_BYTES - 8];
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* Marsaglia's xorshift64 with the shifts 13, 7, 17. */
static uint64_t random64(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Sattolo's shuffle: a single cycle through all lines. */
static void fill(struct line *table, uint32_t lines)
{
    uint64_t state = 0x9e3779b97f4a7c15;

    for (uint32_t i = 0; i < lines; i++) {
        table[i].next = i;
        table[i].value = (uint32_t)random64(&state);
    }
    for (uint32_t i = lines - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(random64(&state) % i), next = table[i].next;

        table[i].next = table[j].next;
        table[j].next = next;
    }
}

static uint64_t option(const char *word, const char *name, uint64_t max)
{
    size_t length = strlen(name);
    char *end;
    uint64_t value;

    if (strncmp(word, name, length))
        return 0;
    errno = 0;
    value = strtoull(word + length, &end, 10);
    if (*end || end == word + length || word[length] == '-' || errno || value == 0 || value > max) {
        fprintf(stderr, "compute: %s: give a number from 1 to %" PRIu64 "\n", word, max);
        exit(EXIT_FAILURE);
    }
    return value;
}

int main(int argc, char **argv)
{
    uint64_t kib = TABLE_DEFAULT_KIB, steps = UINT64_MAX, mixed = 0;
    struct line *table;
    uint32_t at = 0, lines;

    for (int i = 1; i < argc; i++) {
        uint64_t value;

        if ((value = option(argv[i], "--table-kib=", TABLE_MAX_KIB)))
            kib = value;
        else if ((value = option(argv[i], "--steps=", UINT64_MAX)))
            steps = value;
        else {
            bool asked = !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");

            fprintf(asked ? stdout : stderr,
                    "usage: compute [--table-kib=N] [--steps=N]\n"
                    "  --table-kib=N  KiB to walk through (%d)\n"
                    "  --steps=N      end after so many steps (never)\n",
                    TABLE_DEFAULT_KIB);
            return asked ? EXIT_SUCCESS : EXIT_FAILURE;
        }
    }
    lines = (uint32_t)(kib * 1024 / LINE_BYTES);
    table = aligned_alloc(LINE_BYTES, (size_t)lines * sizeof(*table));
    if (!table) {
        fprintf(stderr, "compute: no memory for a table of %" PRIu64 " KiB\n", kib);
        return EXIT_FAILURE;
    }
    fill(table, lines);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    printf("doorbell: ready\n");
    fflush(stdout);
    for (uint64_t step = 0; step < steps && !interrupted; step++) {
        at = table[at].next;
        mixed = (mixed ^ table[at].value) * 0x100000001b3;
        mixed ^= mixed >> 29;
    }
    printf("mixed %016" PRIx64 "\n", mixed);
    free(table);
    return EXIT_SUCCESS;
}
