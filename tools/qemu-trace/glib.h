/* Replaces glib's header: the two types used by qemu-plugin.h, as documented by glib, and the functions that the plugin calls, which
 * are resolved in QEMU's copy of glib.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef QEMU_TRACE_GLIB_H
#define QEMU_TRACE_GLIB_H

typedef struct {
    char *data;
    unsigned int len;
} GArray;

typedef struct {
    unsigned char *data;
    unsigned int len;
} GByteArray;

GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *array, unsigned int length);
char *g_array_free(GArray *array, int free_segment);

#endif
