/* memcached's text protocol over UDP: what a request's datagram asks is done, and answered in datagrams as memcached
 * sends them.
 *
 * A datagram of either direction begins with 8 bytes: the request's id, which answers repeat; the datagram's number and
 * how many there are; and two that are zero (big-endian, protocol.txt: "UDP protocol"). As in memcached
 *   - a request is one datagram; one that says it is a part of several is dropped, and so is one of 8 bytes or less;
 *   - a request may hold several commands, and each has a reply of its own; so has each key of a get, the last with the
 *     END;
 *   - a key of a get that is not there, and is not the last, has no reply, unless it would be the first reply that is
 *     sent: then that is a datagram of 8 bytes that says it is none of 0;
 *   - a reply of more than 1392 bytes takes several datagrams;
 *   - a command without its line's end at the end of a datagram is dropped without a reply.
 *
 * Commands: get, gets, gat, gats, bget, set, add, replace, append, prepend, cas, delete, incr, decr, touch, flush_all,
 * stats, stats reset, verbosity (which has no effect), version, quit.
 *
 * What differs from memcached, whose words are answered alike otherwise, errors included:
 *   - A datagram that ends within a command's data is answered CLIENT_ERROR bad data chunk (SERVER_ERROR object too
 *     large for cache where that holds) and is done with. memcached goes on reading: it takes the next datagrams,
 * whoever sent them and with their headers, for the rest of the data.
 *   - A get with too long a key is answered CLIENT_ERROR, and what the commands before it in the datagram had to say is
 *     sent; memcached forgets it.
 *   - incr and decr keep a value's length as long as the number fits. In memcached that also depends on whether another
 *     reply or its own thread holds the item at that moment. And they read no further than the value: in one of white
 *     space memcached reads on in what older values have left, and so it does to look for a minus where a number is
 * above 2^63.
 *   - A delayed flush happens when it is due and not a second before.
 *   - quit ends the datagram. After it memcached goes on, for all clients, to drop what follows a get in a datagram.
 *   - Unknown to us, and answered ERROR: the meta commands, slabs, lru, lru_crawler, cache_memlimit, watch, shutdown,
 *     stats with other words than reset. What stats and version say is our own. */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include "store.h"

/* Bytes before the text of a datagram, and of the longest datagram that is sent. */
#define PROTOCOL_HEADER_BYTES 8
#define PROTOCOL_DATAGRAM_MAX 1400

struct protocol_counts {
    uint64_t datagrams, refused; /* requests, and those among them that were dropped */
    uint64_t gets, stores, touches, flushes, errors;
    uint64_t lost; /* replies for which there was no room */
};

struct protocol {
    struct store *store;
    uint32_t started; /* when, for stats */
    struct protocol_counts counts;
};

/* Where replies go. */
struct outbox {
    /* Room for PROTOCOL_DATAGRAM_MAX bytes of the next datagram; null: there is none, and the reply's rest is lost. */
    uint8_t *(*room)(void *user);
    /* The datagram in the room that was given last is complete. */
    void (*send)(void *user, size_t bytes);
    void *user;
};

/* Answers one request. Its bytes must not change before this returns. */
void protocol_answer(struct protocol *protocol, const uint8_t *datagram, size_t bytes, const struct outbox *outbox);

#endif
