/* In place of glib's header: the two types that qemu-plugin.h names, as glib documents them, and the functions that the plugin
 * calls, which it finds in QEMU's own glib.
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
