/* The raw stream that the plugin writes: its format, the numbers of its records, and buffered output. crates/qemu-trace/src/stream.rs
 * reads it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Numbers are of seven bits a byte, lowest first, the highest bit of a byte saying that more follow; a *difference*
 * is a number whose lowest bit is the sign (zigzag). The stream begins with STREAM_MAGIC and the number of bytes of RAM. Then records, the
 * first byte of which says of which kind:
 *
 *  RECORD_END       instructions in the window
 *  RECORD_BEGIN     instructions since reset: the window begins. What stands before are the NIC's registers as software had set them
 *  RECORD_AGAIN     a block is executed: the one that followed the last one when that was executed last
 *  RECORD_BLOCK     a block is executed: its number
 *  RECORD_DEFINE    a block is executed, and gets the next number, from 0: virtual address, physical address + 1 of its first byte and
 *                   of its last instruction (0 if it is not in RAM), how many instructions; of each its length (a byte) and its bytes;
 *                   and its walks: of the page of the first instruction, and of that of the last one if it is another one
 *  RECORD_CUT       of the last block only so many instructions were begun
 *  RECORD_STATE     before a block: STATE bits (a byte), and what tells its address space from others (x86-64: CR3)
 *  RECORD_TRAP      before a block, which is a handler's: 1 if an interrupt led there, 0 if an exception did (a byte), and the virtual
 *                   address that it goes back to. Only of instruction sets that have registers for that
 *  RECORD_SLEPT     the CPU has waited for an interrupt behind the last block: nanoseconds (sleep.c)
 *  RECORD_WALKS     before a block that was defined in another address space: its number, and its walks
 *  RECORD_DMA       by a device: 1 if it writes RAM (a byte), instructions of the last block that had begun, physical address, bytes
 *  RECORD_DEVICE    which event (enum device_event; a byte), instructions of the last block that had begun, its arguments
 *  ACCESS | bits    of the last block's instruction that stands ACCESS_FURTHER behind the one of the last access (a number, if that
 *                   bit is set): the difference of its virtual address from the one of this instruction's last access (0 at first).
 *                   ACCESS_PAGE: then the physical page (address / 4096) and its walk; else the page is the one that was told last
 *                   among those whose virtual page has the same lowest PAGE_BITS bits, and is of this virtual page.
 *                   ACCESS_IO: no page, but the physical address and the value
 *
 * A walk is how many entries of page tables it reads (a byte; 0 if it is not known, and that is all), the bits of an offset into the page
 * (a byte), and the entries' physical addresses / 8.
 *
 * An instruction that faults had begun, and begins again afterwards. One with a REP prefix may begin several times. An access comes
 * after what it made a device do.
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

/* Instructions are executed with the operating system's rights; they are those of 64 bits, which the reader knows. */
#define STATE_PRIVILEGED 0x01
#define STATE_64_BIT 0x02

/* Bits of an address within its page. */
#define PAGE_SHIFT 12
/* Of the virtual pages that have so many lowest bits in common, the one that was told last is known. */
#define PAGE_BITS 14

/* A byte of an access: this, and the bits below. */
#define ACCESS 0x80
#define ACCESS_FURTHER 0x40
#define ACCESS_PAGE 0x20
#define ACCESS_SIZE_SHIFT 2
#define ACCESS_IO 0x02
#define ACCESS_STORE 0x01

/* Whoever reads the stream is being waited for. */
extern volatile bool stream_waits;

bool stream_open(const char *path);
void put_number(uint64_t number);
void put_difference(uint64_t from, uint64_t to);
void put_byte(uint8_t byte);
void put_bytes(const void *bytes, uint64_t length);
/* Makes room for a record, by writing what is there if need be. put_bytes does so itself. */
void stream_room(void);
void stream_flush(void);

#endif
