/* A key-value store with a memory limit, for a single thread.
 *
 * The store uses a block of memory from the caller, and allocates nothing else:
 *
 *   buckets   4 bytes each, a power of two of them: the first item whose hash selects the bucket
 *   cells     128 bytes each: an item is a chain of cells; the first one has the item's links, its numbers and
 *             the start of its text (the key, then the value), the others have a link and 124 bytes of text
 *
 * The limit covers the whole block, except at most 127 bytes to align the cells. So there is no
 * fragmentation, and evictions always hit the least recently used items. Unused memory is never touched.
 *
 * A look-up reads one line of the buckets and the first line of each item in the bucket, up to the
 * matching one: that line has links, hash, length and the first 23 bytes of the text. A hit moves the item
 * to the head of the LRU list, which writes the first lines of its two neighbours and of the head. Keys
 * and values of up to 87 bytes together occupy one cell, which is two lines.
 *
 * The caller supplies the time. Times are seconds since 1970. */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cells.h"

#define STORE_KEY_MAX 250
/* Longest value in bytes: memcached's default limit for an item. */
#define STORE_VALUE_MAX (1024 * 1024)

/* Parameters of a new store: the block's size and division. */
struct store_shape {
    size_t memory_bytes; /* size of the whole block */
    size_t buckets;      /* a power of two, or 0: between half the number of cells and that number */
    uint64_t seed;       /* seed of the hash */
};

/* Counts since the start, or since store_forget_counts(). */
struct store_counts {
    uint64_t hits, misses;     /* of store_find() */
    uint64_t expired, flushed; /* expired or flushed items that store_find() found */
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
    uint32_t flush_at; /* when a delayed flush is due; 0: no flush */
    uint64_t last_cas;
    uint64_t flushed_cas; /* items with a lower cas ID were flushed */
    uint64_t seed;
    struct store_counts counts;
};

/* Creates an empty store in a block of shape->memory_bytes. Null on success, otherwise the problem with
 * the shape. */
const char *store_init(struct store *store, const struct store_shape *shape, void *memory);

/* Sets the time, which never goes backwards, and performs a flush that is due. */
void store_set_clock(struct store *store, uint32_t now);

/* An item's properties. A pointer to an item is valid until the next call that changes the store. */
struct store_view {
    uint32_t flags;
    uint32_t value_bytes;
    uint64_t cas;
};

/* Finds a living item and marks it most recently used; null if there is none. The key has 1 to 250 bytes. */
struct item *store_find(struct store *store, const uint8_t *key, size_t key_bytes);
struct store_view store_look(const struct item *item);

/* Copies the beginning of an item's value, at most `bytes` bytes. */
void store_copy_value(const struct store *store, const struct item *item, uint8_t *to, size_t bytes);

/* Reads an item's value piece by piece, without copying. */
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
    STORE_EXISTS, /* the cas ID differs */
    STORE_NOT_FOUND,
    STORE_TOO_LARGE, /* a set has also deleted the existing item */
    STORE_NO_NUMBER,
};

/* The value to store. `expires` is memcached's exptime: 0 is never, up to 30 days is relative to now, more
 * is absolute, and a negative value is in the past. Append and prepend keep the item's flags and expiry
 * time. */
struct store_value {
    const uint8_t *bytes;
    size_t count;
    uint32_t flags;
    int32_t expires;
    uint64_t cas; /* for STORE_CAS: the required ID of the item */
};
enum store_result store_put(struct store *store, enum store_mode mode, const uint8_t *key, size_t key_bytes,
                            const struct store_value *value);

/* Whether an item of this size can be stored. */
bool store_fits(const struct store *store, size_t key_bytes, size_t value_bytes);

/* Adds to a number, modulo 2^64, or subtracts from it, down to 0. The text keeps its length, padded with
 * blanks, unless the number needs more digits. */
enum store_result store_count(struct store *store, const uint8_t *key, size_t key_bytes, bool up, uint64_t by,
                              uint64_t *result);

/* False if there is no such item. */
bool store_delete(struct store *store, const uint8_t *key, size_t key_bytes);
bool store_touch(struct store *store, const uint8_t *key, size_t key_bytes, int32_t expires);
void store_touch_item(struct store *store, struct item *item, int32_t expires);

/* Invalidates all current items, now or after `delay` (an exptime). A later call replaces the delay of an
 * earlier one. */
void store_flush(struct store *store, int32_t delay);

void store_forget_counts(struct store *store);

#endif
