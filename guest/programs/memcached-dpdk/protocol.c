#include "protocol.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "number.h"
#include "reply.h"

#define VERSION "VERSION 1.0-doorbell"
#define BAD_FORMAT "CLIENT_ERROR bad command line format"
#define BAD_EXPTIME "CLIENT_ERROR invalid exptime argument"

struct word {
    const uint8_t *at;
    size_t bytes;
};

/* Most words of a command with a limited number of words, plus one to detect too many. */
#define WORDS 8
#define ANY_NUMBER 255

/* State of a command being executed. */
struct call {
    struct protocol *protocol;
    struct store *store;
    const struct command *command;
    struct reply reply;
    struct word words[WORDS];
    size_t word_count; /* at most WORDS */
    const uint8_t *line_end;
    const uint8_t *data, *end; /* rest of the datagram after the line; a command advances `data` past its own data */
    bool noreply;
    bool spoke; /* whether there was a reply since the datagram's start or the last get: see say_nothing() */
};

struct command {
    const char *name;
    uint8_t words_min, words_max;
    void (*run)(struct call *call);
    int variant;
};

/* Additional effects of get's variants, as flags. */
enum { WITH_CAS = 1, WITH_TOUCH = 2 };

/* ---- words and replies ---- */

static struct word next_word(const uint8_t **at, const uint8_t *end)
{
    while (*at < end && **at == ' ')
        ++*at;
    const uint8_t *first = *at, *blank = memchr(first, ' ', (size_t)(end - first));
    *at = blank != NULL ? blank : end;
    return (struct word){first, (size_t)(*at - first)};
}

static bool word_is(struct word word, const char *text)
{
    return word.bytes == strlen(text) && memcmp(word.at, text, word.bytes) == 0;
}

static struct word key_of(const struct call *call)
{
    return call->words[1];
}

static void end_reply(struct call *call)
{
    call->spoke = true;
    if (!reply_end(&call->reply))
        call->protocol->counts.lost++;
}

/* Sends an empty reply, which memcached sends only if no earlier reply goes out together with it. */
static void say_nothing(struct call *call)
{
    if (call->spoke)
        return;
    reply_begin(&call->reply, 0);
    end_reply(call);
}

/* Replies with a line, unless the command suppresses replies. */
static void say_bytes(struct call *call, const void *text, size_t bytes)
{
    if (call->noreply)
        return;
    reply_begin(&call->reply, bytes + 2);
    reply_put(&call->reply, text, bytes);
    reply_put(&call->reply, "\r\n", 2);
    end_reply(call);
}

static void say(struct call *call, const char *text)
{
    say_bytes(call, text, strlen(text));
}

static void fail(struct call *call, const char *text)
{
    call->protocol->counts.errors++;
    say(call, text);
}

/* Whether the last word is "noreply", independent of the command's number of words. */
static bool see_noreply(struct call *call)
{
    call->noreply = word_is(call->words[call->word_count - 1], "noreply");
    return call->noreply;
}

/* ---- get, gets, gat, gats ---- */

static size_t put_number(uint8_t *at, char before, uint64_t number)
{
    *at = (uint8_t)before;
    return 1 + number_write(at + 1, number);
}

static void reply_value(struct call *call, struct word key, const struct item *item, bool last)
{
    struct store_view view = store_look(item);
    uint8_t head[6 + STORE_KEY_MAX + 3 * (1 + NUMBER_DIGITS) + 2];
    size_t bytes = 6 + key.bytes;
    memcpy(head, "VALUE ", 6);
    memcpy(head + 6, key.at, key.bytes);
    bytes += put_number(head + bytes, ' ', view.flags);
    bytes += put_number(head + bytes, ' ', view.value_bytes);
    if (call->command->variant & WITH_CAS)
        bytes += put_number(head + bytes, ' ', view.cas);
    head[bytes++] = '\r';
    head[bytes++] = '\n';
    size_t tail = last ? sizeof "\r\nEND\r\n" - 1 : 2;
    reply_begin(&call->reply, bytes + view.value_bytes + tail);
    reply_put(&call->reply, head, bytes);
    struct store_reader reader;
    store_read_value(call->store, item, &reader);
    const uint8_t *piece;
    for (size_t got; (piece = store_next_piece(&reader, SIZE_MAX, &got)) != NULL;)
        reply_put(&call->reply, piece, got);
    reply_put(&call->reply, "\r\nEND\r\n", tail);
    end_reply(call);
}

static void run_get(struct call *call)
{
    bool touches = (call->command->variant & WITH_TOUCH) != 0;
    int32_t expires = 0;
    if (touches && !number_signed(call->words[1].at, call->words[1].bytes, &expires))
        return fail(call, BAD_EXPTIME);
    struct word before_keys = call->words[touches ? 1 : 0];
    const uint8_t *at = before_keys.at + before_keys.bytes, *keys = at;
    for (struct word key; (key = next_word(&at, call->line_end)).bytes > 0;) {
        if (key.bytes > STORE_KEY_MAX)
            return fail(call, BAD_FORMAT);
    }
    struct word key = next_word(&keys, call->line_end);
    if (key.bytes == 0)
        say(call, "END");
    for (struct word next; key.bytes > 0; key = next) {
        next = next_word(&keys, call->line_end);
        bool last = next.bytes == 0;
        call->protocol->counts.gets++;
        struct item *item = store_find(call->store, key.at, key.bytes);
        if (item != NULL) {
            if (touches)
                store_touch_item(call->store, item, expires);
            reply_value(call, key, item, last);
        } else if (last) {
            say(call, "END");
        } else {
            say_nothing(call);
        }
    }
    call->spoke = false;
}

/* ---- set, add, replace, append, prepend, cas ---- */

static void say_result(struct call *call, enum store_result result)
{
    switch (result) {
    case STORE_DONE:
        return say(call, "STORED");
    case STORE_NOT_STORED:
        return say(call, "NOT_STORED");
    case STORE_EXISTS:
        return say(call, "EXISTS");
    case STORE_NOT_FOUND:
        return say(call, "NOT_FOUND");
    case STORE_TOO_LARGE:
    case STORE_NO_NUMBER:
        return fail(call, "SERVER_ERROR object too large for cache");
    }
}

static void run_store(struct call *call)
{
    enum store_mode mode = (enum store_mode)call->command->variant;
    const struct word *words = call->words;
    struct word key = key_of(call);
    struct store_value value = {0};
    uint64_t flags;
    int32_t count;
    see_noreply(call);
    if (key.bytes > STORE_KEY_MAX || !number_unsigned(words[2].at, words[2].bytes, &flags) ||
        !number_signed(words[3].at, words[3].bytes, &value.expires) ||
        !number_signed(words[4].at, words[4].bytes, &count) ||
        (mode == STORE_CAS && !number_unsigned(words[5].at, words[5].bytes, &value.cas)) || count < 0 ||
        count > INT32_MAX - 2)
        return fail(call, BAD_FORMAT);
    call->protocol->counts.stores++;
    value.flags = (uint32_t)flags;
    value.bytes = call->data;
    value.count = (size_t)count;
    size_t left = (size_t)(call->end - call->data), taken = value.count + 2;
    call->data += taken < left ? taken : left;
    /* A value that is too large fails as such, whether its data are present or not. */
    if (store_fits(call->store, key.bytes, value.count) &&
        (taken > left || memcmp(value.bytes + value.count, "\r\n", 2) != 0))
        return fail(call, "CLIENT_ERROR bad data chunk");
    say_result(call, store_put(call->store, mode, key.at, key.bytes, &value));
}

/* ---- other commands ---- */

static void run_delete(struct call *call)
{
    struct word key = key_of(call);
    if (call->word_count > 2) {
        bool zero = word_is(call->words[2], "0"), noreply = see_noreply(call);
        bool valid = call->word_count == 3 ? zero || noreply : zero && noreply;
        if (!valid)
            return fail(call, BAD_FORMAT ".  Usage: delete <key> [noreply]");
    }
    if (key.bytes > STORE_KEY_MAX)
        return fail(call, BAD_FORMAT);
    say(call, store_delete(call->store, key.at, key.bytes) ? "DELETED" : "NOT_FOUND");
}

static void run_count(struct call *call)
{
    struct word key = key_of(call), by = call->words[2];
    uint64_t delta, result;
    uint8_t digits[NUMBER_DIGITS];
    see_noreply(call);
    if (key.bytes > STORE_KEY_MAX)
        return fail(call, BAD_FORMAT);
    if (!number_unsigned(by.at, by.bytes, &delta))
        return fail(call, "CLIENT_ERROR invalid numeric delta argument");
    switch (store_count(call->store, key.at, key.bytes, call->command->variant != 0, delta, &result)) {
    case STORE_DONE:
        return say_bytes(call, digits, number_write(digits, result));
    case STORE_NOT_FOUND:
        return say(call, "NOT_FOUND");
    case STORE_NO_NUMBER:
        return fail(call, "CLIENT_ERROR cannot increment or decrement non-numeric value");
    default:
        return fail(call, "SERVER_ERROR out of memory");
    }
}

static void run_touch(struct call *call)
{
    struct word key = key_of(call), time = call->words[2];
    int32_t expires;
    see_noreply(call);
    if (key.bytes > STORE_KEY_MAX)
        return fail(call, BAD_FORMAT);
    if (!number_signed(time.at, time.bytes, &expires))
        return fail(call, BAD_EXPTIME);
    call->protocol->counts.touches++;
    say(call, store_touch(call->store, key.at, key.bytes, expires) ? "TOUCHED" : "NOT_FOUND");
}

static void run_flush_all(struct call *call)
{
    int32_t delay = 0;
    size_t words = see_noreply(call) ? 2 : 1;
    call->protocol->counts.flushes++;
    if (call->word_count != words && !number_signed(call->words[1].at, call->words[1].bytes, &delay))
        return fail(call, BAD_EXPTIME);
    store_flush(call->store, delay);
    say(call, "OK");
}

static void run_verbosity(struct call *call)
{
    uint64_t level;
    see_noreply(call);
    if (!number_unsigned(call->words[1].at, call->words[1].bytes, &level))
        return fail(call, BAD_FORMAT);
    say(call, "OK");
}

static void run_version(struct call *call)
{
    say(call, VERSION);
}

static void run_quit(struct call *call)
{
    say_nothing(call);
    call->data = call->end;
}

struct stat {
    const char *name;
    uint64_t value;
};

static void run_stats(struct call *call)
{
    struct protocol *protocol = call->protocol;
    const struct store *store = call->store;
    if (call->word_count > 1) {
        if (!word_is(call->words[1], "reset"))
            return fail(call, "ERROR");
        protocol->counts = (struct protocol_counts){0};
        store_forget_counts(call->store);
        return say(call, "RESET");
    }
    const struct stat stats[] = {
        {"uptime", store->now - protocol->started},
        {"time", store->now},
        {"pointer_size", 8 * sizeof(void *)},
        {"cmd_get", protocol->counts.gets},
        {"cmd_set", protocol->counts.stores},
        {"cmd_touch", protocol->counts.touches},
        {"cmd_flush", protocol->counts.flushes},
        {"get_hits", store->counts.hits},
        {"get_misses", store->counts.misses},
        {"get_expired", store->counts.expired},
        {"get_flushed", store->counts.flushed},
        {"errors", protocol->counts.errors},
        {"datagrams", protocol->counts.datagrams},
        {"datagrams_refused", protocol->counts.refused},
        {"replies_lost", protocol->counts.lost},
        {"curr_items", store->item_count},
        {"total_items", store->counts.stored},
        {"evictions", store->counts.evictions},
        {"bytes", (uint64_t)store->cells.used * CELL_BYTES},
        {"limit_maxbytes", (uint64_t)store->cells.count * CELL_BYTES},
        {"hash_buckets", (uint64_t)store->bucket_mask + 1},
        {"threads", 1},
    };
    /* A name has at most 24 letters, a number 20 digits. */
    char text[sizeof stats / sizeof *stats * 64];
    size_t bytes = 0;
    for (size_t stat = 0; stat < sizeof stats / sizeof *stats; stat++)
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "STAT %s %" PRIu64 "\r\n", stats[stat].name,
                                  stats[stat].value);
    bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "END");
    say_bytes(call, text, bytes);
}

/* The commands, most frequent first. */
static const struct command COMMANDS[] = {
    {"get", 2, ANY_NUMBER, run_get, 0},
    {"set", 5, 6, run_store, STORE_SET},
    {"gets", 2, ANY_NUMBER, run_get, WITH_CAS},
    {"add", 5, 6, run_store, STORE_ADD},
    {"replace", 5, 6, run_store, STORE_REPLACE},
    {"append", 5, 6, run_store, STORE_APPEND},
    {"prepend", 5, 6, run_store, STORE_PREPEND},
    {"cas", 6, 7, run_store, STORE_CAS},
    {"delete", 2, 4, run_delete, 0},
    {"incr", 3, 4, run_count, 1},
    {"decr", 3, 4, run_count, 0},
    {"touch", 3, 4, run_touch, 0},
    {"gat", 2, ANY_NUMBER, run_get, WITH_TOUCH},
    {"gats", 2, ANY_NUMBER, run_get, WITH_TOUCH | WITH_CAS},
    {"bget", 2, ANY_NUMBER, run_get, 0},
    {"flush_all", 1, 3, run_flush_all, 0},
    {"stats", 1, ANY_NUMBER, run_stats, 0},
    {"version", 1, ANY_NUMBER, run_version, 0},
    {"verbosity", 2, 3, run_verbosity, 0},
    {"quit", 1, ANY_NUMBER, run_quit, 0},
};

/* ---- lines ---- */

static const struct command *find_command(struct word name)
{
    for (size_t command = 0; command < sizeof COMMANDS / sizeof *COMMANDS; command++) {
        if (word_is(name, COMMANDS[command].name))
            return &COMMANDS[command];
    }
    return NULL;
}

static void run_line(struct call *call, const uint8_t *line)
{
    const uint8_t *at = line;
    call->noreply = false;
    for (call->word_count = 0; call->word_count < WORDS; call->word_count++) {
        struct word word = next_word(&at, call->line_end);
        if (word.bytes == 0)
            break;
        call->words[call->word_count] = word;
    }
    call->command = call->word_count > 0 ? find_command(call->words[0]) : NULL;
    if (call->command == NULL || call->word_count < call->command->words_min ||
        call->word_count > call->command->words_max)
        return fail(call, "ERROR");
    call->command->run(call);
}

void protocol_answer(struct protocol *protocol, const uint8_t *datagram, size_t bytes, const struct outbox *outbox)
{
    protocol->counts.datagrams++;
    if (bytes <= PROTOCOL_HEADER_BYTES || datagram[4] != 0 || datagram[5] != 1) {
        protocol->counts.refused++;
        return;
    }
    struct call call = {
        .protocol = protocol,
        .store = protocol->store,
        .reply = {.outbox = outbox, .id = {datagram[0], datagram[1]}},
        .data = datagram + PROTOCOL_HEADER_BYTES,
        .end = datagram + bytes,
    };
    while (call.data < call.end) {
        const uint8_t *line = call.data, *feed = memchr(line, '\n', (size_t)(call.end - line));
        if (feed == NULL)
            return;
        /* A carriage return is part of the line end, unless the line is otherwise empty. */
        const uint8_t *end = feed - line > 1 && feed[-1] == '\r' ? feed - 1 : feed;
        const uint8_t *nul = memchr(line, '\0', (size_t)(end - line));
        call.line_end = nul != NULL ? nul : end;
        call.data = feed + 1;
        run_line(&call, line);
    }
}
