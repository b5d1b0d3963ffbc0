/* The store and its protocol without a network, for tests: commands on standard input, replies on standard
 * output.
 *
 *     memcached-shell MEMORY_BYTES [BUCKETS [CLOCK_START]]
 *
 * Each command is a 32-bit length and that many bytes (little-endian): a request's datagram. A number
 * above 2^31 has no bytes: its lower 31 bits advance the clock by that many seconds. The reply is a 32-bit
 * length and the bytes of each datagram, followed by a length of zero. */
#include <stdio.h>
#include <stdlib.h>

#include "protocol.h"

#define CLOCK_STEP 0x80000000u
#define DATAGRAM_MAX 65536
/* Default start of the clock, in seconds since 1970: in September 2020. */
#define CLOCK_START 1600000000u

/* Each datagram is written as soon as it is complete, from a buffer of exactly the allowed length, so that
 * a sanitizer detects overruns. */
static uint8_t *room(void *user)
{
    uint8_t **datagram = user;
    *datagram = malloc(PROTOCOL_DATAGRAM_MAX);
    return *datagram;
}

static void send_datagram(void *user, size_t bytes)
{
    uint8_t **datagram = user;
    uint32_t length = (uint32_t)bytes;
    fwrite(&length, sizeof length, 1, stdout);
    fwrite(*datagram, 1, bytes, stdout);
    free(*datagram);
}

static bool answer(struct protocol *protocol, uint32_t bytes)
{
    /* Exactly as long as the request, for the same reason. */
    uint8_t *datagram = NULL, *request = malloc(bytes > 0 ? bytes : 1);
    const struct outbox outbox = {room, send_datagram, &datagram};
    const uint32_t no_more = 0;
    bool ok = request != NULL && fread(request, 1, bytes, stdin) == bytes;
    if (ok) {
        protocol_answer(protocol, request, bytes, &outbox);
        fwrite(&no_more, sizeof no_more, 1, stdout);
    }
    free(request);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: memcached-shell MEMORY_BYTES [BUCKETS [CLOCK_START]]\n");
        return 2;
    }
    struct store_shape shape = {
        .memory_bytes = strtoull(argv[1], NULL, 10),
        .buckets = argc > 2 ? strtoull(argv[2], NULL, 10) : 0,
    };
    void *memory = malloc(shape.memory_bytes);
    struct store store;
    const char *wrong = memory != NULL ? store_init(&store, &shape, memory) : "there is not so much memory";
    if (wrong != NULL) {
        fprintf(stderr, "memcached-shell: %s\n", wrong);
        return 1;
    }
    store_set_clock(&store, argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : CLOCK_START);
    struct protocol protocol = {.store = &store, .started = store.now};
    uint32_t number;
    bool ok = true;
    while (ok && fread(&number, sizeof number, 1, stdin) == 1) {
        if (number & CLOCK_STEP)
            store_set_clock(&store, store.now + (number & ~CLOCK_STEP));
        else
            ok = number <= DATAGRAM_MAX && answer(&protocol, number);
        fflush(stdout);
    }
    free(memory);
    if (!ok)
        fprintf(stderr, "memcached-shell: a request of more than 65536 bytes, or one that is cut off\n");
    return !ok;
}
