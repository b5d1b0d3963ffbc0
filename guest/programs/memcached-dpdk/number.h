/* Decimal numbers in requests and values, parsed like memcached does: by strtoul()'s rules, which allow
 * leading white space, a sign, and anything after white space. */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digits of the largest 64-bit number. */
#define NUMBER_DIGITS 20

/* Parses an unsigned number of up to 64 bits. Returns false if there is none, or if it is negative or too
 * large. Like strtoul(), it wraps a negative number whose magnitude is above 2^63 to its complement. */
bool number_unsigned(const uint8_t *text, size_t bytes, uint64_t *value);

/* Parses a signed number of up to 64 bits and keeps its lower 32, like memcached. Returns false if there
 * is none or it is too large. */
bool number_signed(const uint8_t *text, size_t bytes, int32_t *value);

/* Writes a number without a terminator, and returns its number of digits. */
size_t number_write(uint8_t digits[NUMBER_DIGITS], uint64_t value);

#endif
