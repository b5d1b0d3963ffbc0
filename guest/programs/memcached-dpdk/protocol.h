/* memcached's text protocol over UDP: executes the commands of a request's datagram, and sends the replies
 * in datagrams, as memcached does.
 *
 * Every datagram begins with 8 bytes: the request's ID, which answers repeat; the datagram's number, and
 * the number of datagrams; two bytes of zero (big-endian, protocol.txt: "UDP protocol"). As in memcached
 *   - a request is a single datagram; one that claims to be part of several is dropped, and so is one of 8
 *     bytes or less;
 *   - a request may have several commands, each with its own reply; each key of a get has its own reply,
 *     too, the last one together with END;
 *   - a missing key of a get, other than the last one, has no reply, unless it would be the first reply
 *     sent: then the reply is a datagram of 8 bytes with a total number of 0;
 *   - a reply of more than 1392 bytes is split into several datagrams;
 *   - a command without line end at the end of a datagram is dropped without a reply.
 *
 * Commands: get, gets, gat, gats, bget, set, add, replace, append, prepend, cas, delete, incr, decr,
 * touch, flush_all, stats, stats reset, verbosity (which has no effect), version, quit.
 *
 * Differences from memcached; all other replies, including errors, are the same:
 *   - A datagram that ends within a command's data is answered CLIENT_ERROR bad data chunk (SERVER_ERROR
 *     object too large for cache where that applies), and processing ends. memcached instead uses the
 *     following datagrams, from any client and including their headers, as the rest of the data.
 *   - A get with a key that is too long is answered CLIENT_ERROR, and the replies to earlier commands of
 *     the datagram are sent; memcached drops them.
 *   - incr and decr keep a value's length as long as the number fits. In memcached that also depends on
 *     whether another reply or its own thread holds the item at that moment. Here they never read beyond
 *     the value; memcached reads on into remnants of older values if the value is white space, or when it
 *     looks for a minus sign for a number above 2^63.
 *   - A delayed flush happens exactly when it is due.
 *   - quit ends the datagram. After a quit, memcached continues to drop whatever follows a get in a
 *     datagram, for all clients.
 *   - Unsupported, and answered ERROR: the meta commands, slabs, lru, lru_crawler, cache_memlimit, watch,
 *     shutdown, stats with arguments other than reset. The output of stats and version is specific to this
 *     program. */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include "store.h"

/* Size of the header of a datagram, and of the longest datagram that is sent. */
#define PROTOCOL_HEADER_BYTES 8
#define PROTOCOL_DATAGRAM_MAX 1400

struct protocol_counts {
    uint64_t datagrams, refused; /* requests, and dropped requests */
    uint64_t gets, stores, touches, flushes, errors;
    uint64_t lost; /* replies for which there was no room */
};

struct protocol {
    struct store *store;
    uint32_t started; /* start time, for stats */
    struct protocol_counts counts;
};

/* Destination of replies. */
struct outbox {
    /* Returns room for PROTOCOL_DATAGRAM_MAX bytes of the next datagram; null if there is none, and then
     * the rest of the reply is lost. */
    uint8_t *(*room)(void *user);
    /* Sends the datagram in the room returned last. */
    void (*send)(void *user, size_t bytes);
    void *user;
};

/* Answers one request. Its bytes must not change before this returns. */
void protocol_answer(struct protocol *protocol, const uint8_t *datagram, size_t bytes, const struct outbox *outbox);

#endif
