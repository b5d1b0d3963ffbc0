/* The raw stream written by the plugin: format, record numbers and buffered output. crates/qemu-trace/src/stream.rs reads it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Numbers have seven bits per byte, lowest first; the highest bit of a byte is set if more bytes follow. A *difference* is a number whose
 * lowest bit is the sign (zigzag). The stream starts with STREAM_MAGIC and the size of RAM in bytes. Records follow; the first byte is the
 * type:
 *
 *  RECORD_END       end of the window: its number of instructions
 *  RECORD_BEGIN     start of the window: instructions since reset. The records before it hold the NIC's registers as set by software
 *  RECORD_AGAIN     execution of the block that followed the last block when that was last executed
 *  RECORD_BLOCK     execution of a block: its number
 *  RECORD_DEFINE    execution of a new block, which gets the next number, from 0: virtual address; physical address + 1 of its first byte
 *                   and of its last instruction (0 if not in RAM); number of instructions; per instruction its length (a byte) and
 *                   bytes; walks of the page of the first instruction, and of the last one's page if it differs
 *  RECORD_CUT       the last block was left early: number of its started instructions
 *  RECORD_STATE     before a block: STATE bits (a byte), and a value that identifies its address space (x86-64: CR3)
 *  RECORD_TRAP      before a block that starts a handler: 1 for an interrupt, 0 for an exception (a byte), and the virtual return
 *                   address. Only on instruction sets that have registers for this
 *  RECORD_SLEPT     the CPU waited for an interrupt after the last block: nanoseconds (sleep.c)
 *  RECORD_WALKS     before a block that was defined in another address space: its number and its walks
 *  RECORD_DMA       DMA by a device: 1 if it writes RAM (a byte), started instructions of the last block, physical address, bytes
 *  RECORD_DEVICE    event (enum device_event; a byte), started instructions of the last block, the event's arguments
 *  ACCESS | bits    access by an instruction of the last block. With ACCESS_FURTHER: the difference of the instruction's index from that
 *                   of the last access. Then the difference of the virtual address from that of this instruction's last access (0 at
 *                   first). With ACCESS_PAGE: the physical page (address / 4096) and its walk. Otherwise the page is the last emitted
 *                   one of the virtual pages with the same lowest PAGE_BITS bits, and belongs to this virtual page.
 *                   With ACCESS_IO: no page, but the physical address and the value
 *
 * A walk is the number of page-table entries read (a byte; if the walk is unknown, 0 and nothing else), the number of offset bits in the
 * page (a byte), and the entries' physical addresses / 8.
 *
 * A faulting instruction counts as started, and starts again afterwards. One with a REP prefix may start several times. An access is
 * recorded after the device events that it caused.
 */
#ifndef QEMU_TRACE_STREAM_H
#define QEMU_TRACE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define STREAM_MAGIC "doorbell-qemu-4\n"

enum record {
    RECORD_END,
    RECORD_AGAIN,
    RECORD_BLOCK,
    RECORD_DEFINE,
    RECORD_CUT,
    RECORD_STATE,
    RECORD_SLEPT,
    RECORD_DMA,
    RECORD_DEVICE,
    RECORD_BEGIN,
    RECORD_TRAP,
    RECORD_WALKS,
};

/* Privileged execution; and 64-bit instructions, which the reader can decode. */
#define STATE_PRIVILEGED 0x01
#define STATE_64_BIT 0x02

/* Number of offset bits in a page. */
#define PAGE_SHIFT 12
/* Number of lowest bits of a virtual page number that index the last emitted translations. */
#define PAGE_BITS 14

/* First byte of an access record, combined with the bits below. */
#define ACCESS 0x80
#define ACCESS_FURTHER 0x40
#define ACCESS_PAGE 0x20
#define ACCESS_SIZE_SHIFT 2
#define ACCESS_IO 0x02
#define ACCESS_STORE 0x01

/* Set while the plugin waits for the reader of the stream. */
extern volatile bool stream_waits;

bool stream_open(const char *path);
void put_number(uint64_t number);
void put_difference(uint64_t from, uint64_t to);
void put_byte(uint8_t byte);
void put_bytes(const void *bytes, uint64_t length);
/* Makes room for a record in the buffer, by flushing it if necessary. put_bytes does this itself. */
void stream_room(void);
void stream_flush(void);

#endif
