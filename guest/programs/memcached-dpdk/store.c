#include "store.h"

#include <assert.h>
#include <string.h>

#include "cells.h"
#include "number.h"

/* An exptime up to this is relative to now, a larger one is absolute. */
#define RELATIVE_SECONDS_MAX (60 * 60 * 24 * 30)

struct item {
    uint32_t next_cell;
    uint32_t next_in_bucket;
    uint32_t newer, older;
    uint32_t hash;
    uint32_t flags;
    uint32_t expires; /* 0: never */
    uint32_t value_bytes;
    uint64_t cas;
    uint8_t key_bytes;
    uint8_t text[CELL_BYTES - 41];
};

static_assert(sizeof(struct item) == CELL_BYTES, "an item begins in one cell");

static struct item *item_at(const struct store *store, uint32_t number)
{
    return cell_at(&store->cells, number);
}

static uint32_t number_of(const struct store *store, const struct item *item)
{
    return cell_number(&store->cells, item);
}

/* ---- item layout ---- */

static size_t cells_for(size_t text_bytes)
{
    const size_t in_first = sizeof((struct item *)0)->text, in_others = sizeof((struct cell *)0)->text;
    return text_bytes <= in_first ? 1 : 1 + (text_bytes - in_first + in_others - 1) / in_others;
}

static size_t cells_of(const struct item *item)
{
    return cells_for(item->key_bytes + (size_t)item->value_bytes);
}

static struct place start_of_text(const struct store *store, const struct item *item)
{
    struct item *first = item_at(store, number_of(store, item));
    return (struct place){&store->cells, (uint8_t *)first, first->text, sizeof first->text};
}

static struct place start_of_value(const struct store *store, const struct item *item)
{
    struct place place = start_of_text(store, item);
    place_skip(&place, item->key_bytes);
    return place;
}

static bool has_key(const struct store *store, const struct item *item, const uint8_t *key, size_t bytes)
{
    if (item->key_bytes != bytes)
        return false;
    struct place place = start_of_text(store, item);
    for (size_t piece; bytes > 0; key += piece, bytes -= piece) {
        const uint8_t *text = place_next(&place, bytes, &piece);
        if (memcmp(text, key, piece) != 0)
            return false;
    }
    return true;
}

/* ---- LRU list ---- */

static void unlink_use(struct store *store, struct item *item)
{
    if (item->newer != CELL_NONE)
        item_at(store, item->newer)->older = item->older;
    else
        store->newest = item->older;
    if (item->older != CELL_NONE)
        item_at(store, item->older)->newer = item->newer;
    else
        store->oldest = item->newer;
}

static void link_newest(struct store *store, struct item *item)
{
    uint32_t number = number_of(store, item);
    item->newer = CELL_NONE;
    item->older = store->newest;
    if (store->newest != CELL_NONE)
        item_at(store, store->newest)->newer = number;
    else
        store->oldest = number;
    store->newest = number;
}

static void use(struct store *store, struct item *item)
{
    if (item->newer == CELL_NONE)
        return;
    unlink_use(store, item);
    link_newest(store, item);
}

/* ---- buckets ---- */

/* Processes eight bytes at a time: multiply, fold, and a final mix of all bits into the lower ones, which
 * select the bucket. */
static uint32_t hash_of(const struct store *store, const uint8_t *key, size_t bytes)
{
    uint64_t hash = store->seed ^ bytes * 0x9e3779b97f4a7c15u;
    for (; bytes > 0;) {
        uint64_t word = 0;
        size_t taken = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, key, taken);
        hash = (hash ^ word) * 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
        key += taken;
        bytes -= taken;
    }
    hash *= 0xd6e8feb86659fd93u;
    return (uint32_t)(hash >> 32);
}

static void remove_item(struct store *store, struct item *item)
{
    uint32_t number = number_of(store, item);
    uint32_t *link = &store->buckets[item->hash & store->bucket_mask];
    while (*link != number)
        link = &item_at(store, *link)->next_in_bucket;
    *link = item->next_in_bucket;
    unlink_use(store, item);
    cells_give(&store->cells, item, cells_of(item));
    store->item_count--;
}

static struct item *find_hashed(const struct store *store, uint32_t hash, const uint8_t *key, size_t key_bytes)
{
    for (uint32_t number = store->buckets[hash & store->bucket_mask]; number != CELL_NONE;) {
        struct item *item = item_at(store, number);
        if (item->hash == hash && has_key(store, item, key, key_bytes))
            return item;
        number = item->next_in_bucket;
    }
    return NULL;
}

/* Finds a living item, and removes a dead one. */
static struct item *find_living(struct store *store, const uint8_t *key, size_t key_bytes)
{
    struct item *item = find_hashed(store, hash_of(store, key, key_bytes), key, key_bytes);
    if (item == NULL)
        return NULL;
    bool flushed = item->cas < store->flushed_cas;
    bool expired = item->expires != 0 && item->expires <= store->now;
    if (!flushed && !expired)
        return item;
    if (flushed)
        store->counts.flushed++;
    else
        store->counts.expired++;
    remove_item(store, item);
    return NULL;
}

/* ---- new items ---- */

/* Allocates an item with its key, without its value. Evicts the least recently used items to make room,
 * but not `keep`. Null if that is not enough. */
static struct item *make_item(struct store *store, const uint8_t *key, size_t key_bytes, size_t value_bytes,
                              const struct item *keep)
{
    size_t cells = cells_for(key_bytes + value_bytes);
    size_t kept = keep != NULL ? cells_of(keep) : 0;
    if (value_bytes > STORE_VALUE_MAX || cells + kept > store->cells.count)
        return NULL;
    while (store->cells.count - store->cells.used < cells) {
        struct item *oldest = item_at(store, store->oldest);
        if (oldest == keep)
            oldest = item_at(store, oldest->newer);
        remove_item(store, oldest);
        store->counts.evictions++;
    }
    struct item *item = cells_take(&store->cells, cells);
    item->hash = hash_of(store, key, key_bytes);
    item->key_bytes = (uint8_t)key_bytes;
    item->value_bytes = (uint32_t)value_bytes;
    struct place place = start_of_text(store, item);
    place_write(&place, key, key_bytes);
    return item;
}

static void link_item(struct store *store, struct item *item)
{
    uint32_t *bucket = &store->buckets[item->hash & store->bucket_mask];
    item->next_in_bucket = *bucket;
    *bucket = number_of(store, item);
    link_newest(store, item);
    item->cas = ++store->last_cas;
    store->item_count++;
    store->counts.stored++;
}

static uint32_t time_of(const struct store *store, int32_t expires)
{
    if (expires == 0)
        return 0;
    if (expires < 0)
        return 1;
    return expires <= RELATIVE_SECONDS_MAX ? store->now + (uint32_t)expires : (uint32_t)expires;
}

/* Implements append and prepend. */
static enum store_result join(struct store *store, struct item *old, bool append, const uint8_t *key,
                              const struct store_value *value)
{
    struct item *item = make_item(store, key, old->key_bytes, old->value_bytes + value->count, old);
    if (item == NULL)
        return STORE_NOT_STORED;
    item->flags = old->flags;
    item->expires = old->expires;
    struct place to = start_of_value(store, item), from = start_of_value(store, old);
    if (!append)
        place_write(&to, value->bytes, value->count);
    place_copy(&to, &from, old->value_bytes);
    if (append)
        place_write(&to, value->bytes, value->count);
    remove_item(store, old);
    link_item(store, item);
    return STORE_DONE;
}

/* ---- external functions ---- */

static bool is_power_of_two(size_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

const char *store_init(struct store *store, const struct store_shape *shape, void *memory)
{
    size_t buckets = shape->buckets;
    if (buckets == 0) {
        for (buckets = 1; 2 * buckets * (CELL_BYTES + sizeof(uint32_t)) <= shape->memory_bytes;)
            buckets *= 2;
    }
    if (!is_power_of_two(buckets) || buckets > (size_t)1 << 31)
        return "the number of buckets must be a power of two, at most 2^31";
    size_t table = buckets * sizeof(uint32_t) + CELL_BYTES - 1;
    if (shape->memory_bytes < table + CELL_BYTES)
        return "there is no room for items beside the buckets: give more memory, or fewer buckets";
    size_t cells = (shape->memory_bytes - table) / CELL_BYTES;
    if (cells >= UINT32_MAX)
        return "the store has at most 2^32 - 2 cells of 128 bytes: give less memory";
    uintptr_t after_table = (uintptr_t)memory + buckets * sizeof(uint32_t);
    size_t gap = -after_table % CELL_BYTES;
    *store = (struct store){
        .buckets = memory,
        .cells = {.first = (uint8_t *)memory + buckets * sizeof(uint32_t) + gap, .count = (uint32_t)cells},
        .bucket_mask = (uint32_t)(buckets - 1),
        .now = 1,
        .seed = shape->seed,
    };
    memset(store->buckets, 0, buckets * sizeof(uint32_t));
    return NULL;
}

void store_set_clock(struct store *store, uint32_t now)
{
    if (now <= store->now)
        return;
    store->now = now;
    if (store->flush_at != 0 && store->flush_at <= now)
        store_flush(store, 0);
}

struct item *store_find(struct store *store, const uint8_t *key, size_t key_bytes)
{
    struct item *item = find_living(store, key, key_bytes);
    if (item == NULL) {
        store->counts.misses++;
        return NULL;
    }
    store->counts.hits++;
    use(store, item);
    return item;
}

struct store_view store_look(const struct item *item)
{
    return (struct store_view){item->flags, item->value_bytes, item->cas};
}

void store_copy_value(const struct store *store, const struct item *item, uint8_t *to, size_t bytes)
{
    struct store_reader reader;
    store_read_value(store, item, &reader);
    const uint8_t *piece;
    for (size_t got; bytes > 0 && (piece = store_next_piece(&reader, bytes, &got)) != NULL; to += got, bytes -= got)
        memcpy(to, piece, got);
}

void store_read_value(const struct store *store, const struct item *item, struct store_reader *reader)
{
    *reader = (struct store_reader){start_of_value(store, item), item->value_bytes};
}

const uint8_t *store_next_piece(struct store_reader *reader, size_t at_most, size_t *bytes)
{
    if (reader->left == 0 || at_most == 0)
        return NULL;
    const uint8_t *piece = place_next(&reader->place, at_most < reader->left ? at_most : reader->left, bytes);
    reader->left -= *bytes;
    return piece;
}

bool store_fits(const struct store *store, size_t key_bytes, size_t value_bytes)
{
    return value_bytes <= STORE_VALUE_MAX && cells_for(key_bytes + value_bytes) <= store->cells.count;
}

enum store_result store_put(struct store *store, enum store_mode mode, const uint8_t *key, size_t key_bytes,
                            const struct store_value *value)
{
    if (!store_fits(store, key_bytes, value->count)) {
        if (mode == STORE_SET)
            store_delete(store, key, key_bytes);
        return STORE_TOO_LARGE;
    }
    struct item *old = find_living(store, key, key_bytes);
    if (old != NULL)
        use(store, old);
    if (mode == STORE_ADD && old != NULL)
        return STORE_NOT_STORED;
    if (mode == STORE_CAS && old == NULL)
        return STORE_NOT_FOUND;
    if (mode == STORE_CAS && old->cas != value->cas)
        return STORE_EXISTS;
    if (old == NULL && (mode == STORE_REPLACE || mode == STORE_APPEND || mode == STORE_PREPEND))
        return STORE_NOT_STORED;
    if (mode == STORE_APPEND || mode == STORE_PREPEND)
        return join(store, old, mode == STORE_APPEND, key, value);
    if (old != NULL)
        remove_item(store, old);
    struct item *item = make_item(store, key, key_bytes, value->count, NULL);
    item->flags = value->flags;
    item->expires = time_of(store, value->expires);
    struct place place = start_of_value(store, item);
    place_write(&place, value->bytes, value->count);
    link_item(store, item);
    return STORE_DONE;
}

enum store_result store_count(struct store *store, const uint8_t *key, size_t key_bytes, bool up, uint64_t by,
                              uint64_t *result)
{
    struct item *item = find_living(store, key, key_bytes);
    if (item == NULL)
        return STORE_NOT_FOUND;
    /* A number may be surrounded by white space, with a limit on the white space before it. */
    uint8_t text[256];
    size_t bytes = item->value_bytes < sizeof text ? item->value_bytes : sizeof text;
    store_copy_value(store, item, text, bytes);
    uint64_t number;
    if (!number_unsigned(text, bytes, &number))
        return STORE_NO_NUMBER;
    *result = up ? number + by : number - (by < number ? by : number);
    size_t digits = number_write(text, *result);
    if (digits > item->value_bytes) {
        struct item *longer = make_item(store, key, key_bytes, digits, item);
        if (longer == NULL)
            return STORE_TOO_LARGE;
        longer->flags = item->flags;
        longer->expires = item->expires;
        remove_item(store, item);
        link_item(store, longer);
        item = longer;
    } else {
        use(store, item);
        item->cas = ++store->last_cas;
    }
    struct place place = start_of_value(store, item);
    place_write(&place, text, digits);
    for (size_t left = item->value_bytes - digits, piece; left > 0; left -= piece) {
        uint8_t *blanks = place_next(&place, left, &piece);
        memset(blanks, ' ', piece);
    }
    return STORE_DONE;
}

bool store_delete(struct store *store, const uint8_t *key, size_t key_bytes)
{
    struct item *item = find_living(store, key, key_bytes);
    if (item == NULL)
        return false;
    remove_item(store, item);
    return true;
}

bool store_touch(struct store *store, const uint8_t *key, size_t key_bytes, int32_t expires)
{
    struct item *item = find_living(store, key, key_bytes);
    if (item == NULL)
        return false;
    use(store, item);
    store_touch_item(store, item, expires);
    return true;
}

void store_touch_item(struct store *store, struct item *item, int32_t expires)
{
    item->expires = time_of(store, expires);
}

void store_flush(struct store *store, int32_t delay)
{
    uint32_t at = delay > 0 ? time_of(store, delay) : 0;
    if (at > store->now) {
        store->flush_at = at;
        return;
    }
    store->flush_at = 0;
    store->flushed_cas = ++store->last_cas;
}

void store_forget_counts(struct store *store)
{
    store->counts = (struct store_counts){0};
}
