/* Memory divided into cells of 128 bytes, and texts stored in chains of cells.
 *
 * Each cell begins with the number of the next one; the first cell's owner may store more before the text.
 * Cells are numbered from 1. They are allocated in the order of addresses until all have been used once,
 * so that unused memory is never touched; after that, the most recently freed cell is reused first. */
#ifndef CELLS_H
#define CELLS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CELL_BYTES 128
#define CELL_NONE 0

struct cell {
    uint32_t next_cell;
    uint8_t text[CELL_BYTES - 4];
};

struct cells {
    uint8_t *first;
    uint32_t count;
    uint32_t used;  /* cells in use */
    uint32_t fresh; /* cells that were ever used */
    uint32_t free;  /* chain of freed cells */
};

static inline void *cell_at(const struct cells *cells, uint32_t number)
{
    return cells->first + (size_t)(number - 1) * CELL_BYTES;
}

static inline uint32_t cell_number(const struct cells *cells, const void *cell)
{
    return (uint32_t)(((size_t)((const uint8_t *)cell - cells->first)) / CELL_BYTES) + 1;
}

/* Allocates a chain of cells; enough must be free. */
static inline void *cells_take(struct cells *cells, size_t count)
{
    struct cell *first = NULL;
    for (uint32_t *link = NULL; count > 0; count--) {
        uint32_t number = cells->free;
        struct cell *cell;
        if (number != CELL_NONE) {
            cell = cell_at(cells, number);
            cells->free = cell->next_cell;
        } else {
            number = ++cells->fresh;
            cell = cell_at(cells, number);
        }
        cells->used++;
        if (link != NULL)
            *link = number;
        else
            first = cell;
        link = &cell->next_cell;
    }
    return first;
}

/* Frees a chain of `count` cells. */
static inline void cells_give(struct cells *cells, void *chain, size_t count)
{
    struct cell *last = chain;
    for (size_t cell = 1; cell < count; cell++)
        last = cell_at(cells, last->next_cell);
    last->next_cell = cells->free;
    cells->free = cell_number(cells, chain);
    cells->used -= (uint32_t)count;
}

/* A position in a text. */
struct place {
    const struct cells *cells;
    uint8_t *cell, *at;
    size_t in_cell;
};

/* The next contiguous bytes, at most `at_most`; the text must have that many. */
static inline uint8_t *place_next(struct place *place, size_t at_most, size_t *bytes)
{
    if (place->in_cell == 0) {
        uint32_t next;
        memcpy(&next, place->cell, sizeof next);
        struct cell *cell = cell_at(place->cells, next);
        *place = (struct place){place->cells, (uint8_t *)cell, cell->text, sizeof cell->text};
    }
    uint8_t *piece = place->at;
    *bytes = at_most < place->in_cell ? at_most : place->in_cell;
    place->at += *bytes;
    place->in_cell -= *bytes;
    return piece;
}

static inline void place_skip(struct place *place, size_t bytes)
{
    for (size_t piece; bytes > 0; bytes -= piece)
        place_next(place, bytes, &piece);
}

static inline void place_write(struct place *place, const uint8_t *from, size_t bytes)
{
    for (size_t piece; bytes > 0; from += piece, bytes -= piece) {
        uint8_t *to = place_next(place, bytes, &piece);
        memcpy(to, from, piece);
    }
}

static inline void place_copy(struct place *to, struct place *from, size_t bytes)
{
    for (size_t piece; bytes > 0; bytes -= piece) {
        const uint8_t *text = place_next(from, bytes, &piece);
        place_write(to, text, piece);
    }
}

#endif
