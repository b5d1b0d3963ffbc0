/* Decimal numbers in requests and values, read as memcached reads them: with strtoul()'s rules, of which leading white
 * space, a sign, and what follows white space are allowed. */
#ifndef NUMBER_H
#define NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digits of the largest 64-bit number. */
#define NUMBER_DIGITS 20

/* Reads an unsigned number of up to 64 bits. False if there is none, or one that is negative or too large. As strtoul()
 * does, it takes a negative number whose magnitude is above 2^63 for its complement. */
bool number_unsigned(const uint8_t *text, size_t bytes, uint64_t *value);

/* Reads a signed number of up to 64 bits and keeps its lower 32, as memcached does. False if there is none or it is too
 * large. */
bool number_signed(const uint8_t *text, size_t bytes, int32_t *value);

/* Writes a number without an end, and returns how many digits it has. */
size_t number_write(uint8_t digits[NUMBER_DIGITS], uint64_t value);

#endif
