/* One reply of memcached, split into datagrams. Its length must be known in advance, because each datagram
 * states their total number. */
#ifndef REPLY_H
#define REPLY_H

#include <string.h>

#include "protocol.h"

struct reply {
    const struct outbox *outbox;
    uint8_t id[2];
    uint16_t sequence, total;
    uint8_t *room; /* room for the current datagram; null if there was none */
    size_t bytes;  /* bytes written to it */
};

static inline void reply_open_datagram(struct reply *reply)
{
    reply->room = reply->outbox->room(reply->outbox->user);
    reply->bytes = PROTOCOL_HEADER_BYTES;
    if (reply->room == NULL)
        return;
    const uint8_t header[PROTOCOL_HEADER_BYTES] = {
        reply->id[0],
        reply->id[1],
        (uint8_t)(reply->sequence >> 8),
        (uint8_t)reply->sequence,
        (uint8_t)(reply->total >> 8),
        (uint8_t)reply->total,
    };
    memcpy(reply->room, header, sizeof header);
    reply->sequence++;
}

static inline void reply_close_datagram(struct reply *reply)
{
    if (reply->room != NULL)
        reply->outbox->send(reply->outbox->user, reply->bytes);
}

/* Begins a reply of the given length. */
static inline void reply_begin(struct reply *reply, size_t bytes)
{
    const size_t in_each = PROTOCOL_DATAGRAM_MAX - PROTOCOL_HEADER_BYTES;
    reply->sequence = 0;
    reply->total = (uint16_t)((bytes + in_each - 1) / in_each);
    reply_open_datagram(reply);
}

static inline void reply_put(struct reply *reply, const void *text, size_t bytes)
{
    for (const uint8_t *from = text; bytes > 0 && reply->room != NULL;) {
        if (reply->bytes == PROTOCOL_DATAGRAM_MAX) {
            reply_close_datagram(reply);
            reply_open_datagram(reply);
            continue;
        }
        size_t left = PROTOCOL_DATAGRAM_MAX - reply->bytes, piece = bytes < left ? bytes : left;
        memcpy(reply->room + reply->bytes, from, piece);
        reply->bytes += piece;
        from += piece;
        bytes -= piece;
    }
}

/* Ends the reply. Returns false if a part of it found no room. */
static inline bool reply_end(struct reply *reply)
{
    reply_close_datagram(reply);
    return reply->room != NULL;
}

#endif
