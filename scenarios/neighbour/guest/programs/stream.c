/* stream: a co-runner that uses much memory bandwidth. It repeatedly reads one word of each line of a
 * table, in order. No load depends on another one, so as many lines are in flight as the core and its
 * caches allow. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 8
#define LINE_WORDS 8
#define KIB_WORDS (1024 / WORD_BYTES)
#define TABLE_MAX_KIB (1 << 20)
#define NAME "--table-kib="

int main(int argc, char **argv)
{
    const char *number = argc == 2 && !strncmp(argv[1], NAME, strlen(NAME)) ? argv[1] + strlen(NAME) : "";
    uint64_t sums[LINE_WORDS] = {0};
    uint64_t *table;
    size_t kib, words;
    char *end;

    errno = 0;
    kib = strtoull(number, &end, 10);
    if (*number < '0' || *number > '9' || *end || errno || kib == 0 || kib > TABLE_MAX_KIB) {
        fprintf(stderr, "usage: stream " NAME "N\n  N  KiB to read, 1 to %d\n", TABLE_MAX_KIB);
        return EXIT_FAILURE;
    }
    words = kib * KIB_WORDS;
    table = aligned_alloc(WORD_BYTES * LINE_WORDS, words * WORD_BYTES);
    if (!table) {
        fprintf(stderr, "stream: no memory for a table of %zu KiB\n", kib);
        return EXIT_FAILURE;
    }
    /* Written, so that each page is allocated separately. */
    memset(table, 0x5a, words * WORD_BYTES);
    printf("doorbell: ready\n");
    fflush(stdout);
    for (;;) {
        for (size_t i = 0; i < words; i += LINE_WORDS * LINE_WORDS)
            for (size_t line = 0; line < LINE_WORDS; line++)
                sums[line] += table[i + LINE_WORDS * line];
        /* Keeps the loads from being optimised away. */
        __asm__ volatile("" : : "r"(sums) : "memory");
    }
}
