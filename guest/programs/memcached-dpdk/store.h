/* A key-value store under a limit of memory, for one thread.
 *
 * All of it lies in one block of memory that the caller gives, and nothing is allocated afterwards:
 *
 *   buckets   4 bytes each, a power of two of them: the first item of those whose hash selects the bucket
 *   cells     128 bytes each: an item is a chain of them, the first with its links, its numbers and the beginning of
 * its text (the key, then the value), the others with a link and 124 more bytes of text
 *
 * The whole block is what the limit counts, besides at most 127 bytes to align the cells. So there is no fragmentation,
 * and what is evicted is always exactly the items that were least recently used. Memory that was never needed is never
 * touched.
 *
 * A look-up reads one line of the buckets and the first line of each item in the bucket, up to the one that it finds:
 * that line holds links, hash, length and the first 23 bytes of the text. A hit moves the item to the head of the list
 * of use, which writes the first lines of its two neighbours and of the head. Keys and values of up to 87 bytes
 * together take one cell, that is two lines.
 *
 * The clock is passed in. Times are seconds since 1970. */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cells.h"

#define STORE_KEY_MAX 250
/* Bytes of the longest value: memcached's default limit of an item. */
#define STORE_VALUE_MAX (1024 * 1024)

/* What to make: the block's bytes and how it is divided. */
struct store_shape {
    size_t memory_bytes; /* of the whole block */
    size_t buckets;      /* a power of two, or 0: half as many as cells, to as many */
    uint64_t seed;       /* of the hash */
};

/* What was counted since the beginning, or since store_forget_counts(). */
struct store_counts {
    uint64_t hits, misses;     /* of store_find() */
    uint64_t expired, flushed; /* items that store_find() found past their time, or before a flush */
    uint64_t stored, evictions;
};

struct item;

struct store {
    uint32_t *buckets;
    uint32_t bucket_mask;
    struct cells cells;
    uint32_t newest, oldest;
    uint32_t item_count;
    uint32_t now;
    uint32_t flush_at; /* when a delayed flush is due; 0: none is */
    uint64_t last_cas;
    uint64_t flushed_cas; /* items with a lower cas id were flushed */
    uint64_t seed;
    struct store_counts counts;
};

/* Makes an empty store of a block of shape->memory_bytes. Null if all is well, or else what is wrong with the shape. */
const char *store_init(struct store *store, const struct store_shape *shape, void *memory);

/* Sets the time, which never goes back. A flush that is due happens. */
void store_set_clock(struct store *store, uint32_t now);

/* An item's numbers. An item is good until the next call that changes the store. */
struct store_view {
    uint32_t flags;
    uint32_t value_bytes;
    uint64_t cas;
};

/* Finds a living item and makes it the one most recently used; null if there is none. The key has 1 to 250 bytes. */
struct item *store_find(struct store *store, const uint8_t *key, size_t key_bytes);
struct store_view store_look(const struct item *item);

/* Copies the beginning of an item's value, at most `bytes` of it. */
void store_copy_value(const struct store *store, const struct item *item, uint8_t *to, size_t bytes);

/* An item's value piece by piece, without copying. */
struct store_reader {
    struct place place;
    size_t left;
};
void store_read_value(const struct store *store, const struct item *item, struct store_reader *reader);
/* The next piece, of 1 to `at_most` bytes, or null after the last. */
const uint8_t *store_next_piece(struct store_reader *reader, size_t at_most, size_t *bytes);

enum store_mode { STORE_SET, STORE_ADD, STORE_REPLACE, STORE_APPEND, STORE_PREPEND, STORE_CAS };

enum store_result {
    STORE_DONE,
    STORE_NOT_STORED,
    STORE_EXISTS, /* the cas id is another one */
    STORE_NOT_FOUND,
    STORE_TOO_LARGE, /* and a set has deleted what was there */
    STORE_NO_NUMBER,
};

/* What is to be stored. `expires` is memcached's exptime: 0 is never, up to 30 days is from now, more is a time, and
 * what is negative has passed. Append and prepend keep the flags and the time that the item has. */
struct store_value {
    const uint8_t *bytes;
    size_t count;
    uint32_t flags;
    int32_t expires;
    uint64_t cas; /* for STORE_CAS: the id that the item must have */
};
enum store_result store_put(struct store *store, enum store_mode mode, const uint8_t *key, size_t key_bytes,
                            const struct store_value *value);

/* Whether an item of this size can be stored at all. */
bool store_fits(const struct store *store, size_t key_bytes, size_t value_bytes);

/* Adds to a number, modulo 2^64, or subtracts from one, down to 0. The text keeps its length, with blanks at its end,
 * unless it has to grow. */
enum store_result store_count(struct store *store, const uint8_t *key, size_t key_bytes, bool up, uint64_t by,
                              uint64_t *result);

/* False if there is no such item. */
bool store_delete(struct store *store, const uint8_t *key, size_t key_bytes);
bool store_touch(struct store *store, const uint8_t *key, size_t key_bytes, int32_t expires);
void store_touch_item(struct store *store, struct item *item, int32_t expires);

/* Makes all items invalid that exist now, or when `delay` (an exptime) is over. A later call replaces an earlier one's
 * delay. */
void store_flush(struct store *store, int32_t delay);

void store_forget_counts(struct store *store);

#endif
