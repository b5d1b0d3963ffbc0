/* See registers.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "registers.h"

#include <string.h>

#include "plugin.h"

static struct qemu_plugin_register *find(const GArray *all, const char *name)
{
    const qemu_plugin_reg_descriptor *each = (const void *)all->data;

    for (unsigned int at = 0; at < all->len; at++) {
        if (!strcmp(each[at].name, name)) {
            return each[at].handle;
        }
    }
    return NULL;
}

struct qemu_plugin_register *find_register(const GArray *all, const char *name)
{
    struct qemu_plugin_register *found = find(all, name);

    if (!found) {
        fail("this QEMU lacks a register that the plugin needs: use the QEMU version and CPU that Doorbell sets up");
    }
    return found;
}

struct qemu_plugin_register *find_program_counter(const GArray *all)
{
    struct qemu_plugin_register *found = find(all, "rip");

    return found ? found : find_register(all, "pc");
}

uint64_t read_register(struct qemu_plugin_register *handle)
{
    static GByteArray *bytes;
    uint64_t value = 0;
    int length;

    if (!bytes) {
        bytes = g_byte_array_new();
    }
    g_byte_array_set_size(bytes, 0);
    length = qemu_plugin_read_register(handle, bytes);
    if (length <= 0 || length > (int)sizeof(value)) {
        fail("a register cannot be read");
    }
    memcpy(&value, bytes->data, (size_t)length);
    return value;
}
