#include "number.h"

#include <string.h>

static bool is_space(uint8_t letter)
{
    return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

/* Parses sign and magnitude. A NUL ends the number, like white space. */
static bool read_number(const uint8_t *text, size_t bytes, bool *negative, uint64_t *magnitude)
{
    size_t at = 0;
    while (at < bytes && is_space(text[at]))
        at++;
    *negative = at < bytes && text[at] == '-';
    if (at < bytes && (text[at] == '-' || text[at] == '+'))
        at++;
    size_t first = at;
    *magnitude = 0;
    for (; at < bytes && text[at] >= '0' && text[at] <= '9'; at++) {
        if (__builtin_mul_overflow(*magnitude, 10, magnitude) ||
            __builtin_add_overflow(*magnitude, text[at] - '0', magnitude))
            return false;
    }
    return at > first && (at == bytes || text[at] == '\0' || is_space(text[at]));
}

bool number_unsigned(const uint8_t *text, size_t bytes, uint64_t *value)
{
    bool negative;
    uint64_t magnitude;
    if (!read_number(text, bytes, &negative, &magnitude))
        return false;
    *value = negative ? 0 - magnitude : magnitude;
    /* memcached's rule: a value that is negative as a signed number is refused if the text has a minus
     * anywhere. */
    bool suspicious = (int64_t)*value < 0;
    return !suspicious || memchr(text, '-', strnlen((const char *)text, bytes)) == NULL;
}

bool number_signed(const uint8_t *text, size_t bytes, int32_t *value)
{
    bool negative;
    uint64_t magnitude;
    if (!read_number(text, bytes, &negative, &magnitude))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    uint64_t complement = negative ? 0 - magnitude : magnitude;
    *value = (int32_t)(uint32_t)complement;
    return true;
}

size_t number_write(uint8_t digits[NUMBER_DIGITS], uint64_t value)
{
    uint8_t backwards[NUMBER_DIGITS];
    size_t count = 0;
    do {
        backwards[count++] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (size_t at = 0; at < count; at++)
        digits[at] = backwards[count - 1 - at];
    return count;
}
