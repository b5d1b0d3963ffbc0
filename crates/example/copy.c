/* Drives the copy engine from user space through uio_pci_generic: copies a page, waits for the interrupt, and compares.
 * Then repeats the copy with MSI-X and MSI messages, which the engine writes to a page of the program.
 * Usage: copy DEVICE UIO, for example copy 0000:00:05.0 /dev/uio1 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
enum { SOURCE, DESTINATION, LENGTH, CONTROL, STATUS, VECTOR };
/* Capabilities and their registers (PCI Local Bus Specification 3.0, section 6.8). */
enum { MSI = 0x05, MSI_CONTROL = 2, MSI_ADDRESS = 4, MSI_DATA = 12, MSI_MASKS = 16, MSI_PENDING = 20 };
enum { MSIX = 0x11, MSIX_CONTROL = 2, MSIX_TABLE = 4, MSIX_PENDING = 8, MSIX_ENABLE = 0x8000, MSIX_MASK = 0x4000 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int open_in(const char *device, const char *file)
{
	char path[128];
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", device, file);
	int fd = open(path, O_RDWR | O_SYNC);
	if (fd < 0)
		fail(path);
	return fd;
}

/* Physical address of a page of this process (Documentation/admin-guide/mm/pagemap.rst). */
static uint64_t physical(const void *page)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	if (fd < 0 || pread(fd, &entry, 8, (uintptr_t)page / PAGE * 8) != 8)
		fail("pagemap");
	close(fd);
	return (entry & ((UINT64_C(1) << 55) - 1)) * PAGE;
}

static uint32_t get(int config, int at, int bytes)
{
	uint32_t value = 0;
	if (pread(config, &value, bytes, at) != bytes)
		fail("config");
	return value;
}

static void set(int config, int at, int bytes, uint32_t value)
{
	if (pwrite(config, &value, bytes, at) != bytes)
		fail("config");
}

/* Offset of a capability. */
static int find(int config, uint32_t id)
{
	int at = get(config, 0x34, 1);
	while (at && get(config, at, 1) != id)
		at = get(config, at + 1, 1);
	return at;
}

/* Copies again and returns the message, which is written before the status changes, or not at all. */
static uint32_t message_of_copy(volatile uint64_t *engine, volatile uint32_t *message)
{
	*message = 0;
	engine[CONTROL] = 3;
	while (!(engine[STATUS] & 1))
		;
	return *message;
}

static void by_msix(int config, volatile uint64_t *engine, volatile uint32_t *message)
{
	int at = find(config, MSIX);
	volatile uint32_t *entry = (volatile uint32_t *)((char *)engine + get(config, at + MSIX_TABLE, 4)) + 4;
	volatile uint32_t *pending = (volatile uint32_t *)((char *)engine + get(config, at + MSIX_PENDING, 4));
	uint64_t address = physical((void *)message);
	engine[VECTOR] = 1;
	entry[0] = address;
	entry[1] = address >> 32;
	entry[2] = 0x5a01;
	entry[3] = 0;
	set(config, at + MSIX_CONTROL, 2, MSIX_ENABLE);
	printf("MSI-X: message %x, pending %x", message_of_copy(engine, message), *pending);
	engine[STATUS] = 1;
	entry[3] = 1;
	printf("; masked %x, pending %x", message_of_copy(engine, message), *pending);
	entry[3] = 0;
	printf("; unmasked pending %x, message", *pending);
	printf(" %x", *message);
	engine[STATUS] = 1;
	set(config, at + MSIX_CONTROL, 2, MSIX_ENABLE | MSIX_MASK);
	printf("; function masked %x, pending %x", message_of_copy(engine, message), *pending);
	engine[STATUS] = 1;
	printf(", cleared: pending %x", *pending);
	set(config, at + MSIX_CONTROL, 2, 0);
	printf(", message %x\n", *message);
}

static void by_msi(int config, volatile uint64_t *engine, volatile uint32_t *message)
{
	int at = find(config, MSI);
	uint64_t address = physical((void *)message);
	set(config, at + MSI_ADDRESS, 4, address);
	set(config, at + MSI_ADDRESS + 4, 4, address >> 32);
	set(config, at + MSI_DATA, 2, 0x5a50);
	set(config, at + MSI_CONTROL, 2, 0x11);
	printf("MSI: message %x", message_of_copy(engine, message));
	engine[STATUS] = 1;
	set(config, at + MSI_MASKS, 4, 2);
	printf("; masked %x, pending %x", message_of_copy(engine, message), get(config, at + MSI_PENDING, 4));
	set(config, at + MSI_MASKS, 4, 0);
	printf("; unmasked pending %x, message", get(config, at + MSI_PENDING, 4));
	printf(" %x\n", *message);
	engine[STATUS] = 1;
	set(config, at + MSI_CONTROL, 2, 0);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int config = open_in(argv[1], "config"), resource = open_in(argv[1], "resource0");
	/* Memory space and bus mastering, and INTx on: uio_pci_generic disables INTx at each interrupt. */
	uint32_t command = (get(config, 4, 2) | 6) & ~0x400;
	set(config, 4, 2, command);
	volatile uint64_t *engine = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, resource, 0);
	unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (engine == MAP_FAILED || pages == MAP_FAILED || mlock(pages, 3 * PAGE))
		fail("memory");
	for (int i = 0; i < PAGE; i++)
		pages[i] = i * 7 + 3;
	memset(pages + PAGE, 0, PAGE);
	int uio = open(argv[2], O_RDWR);
	uint32_t interrupts;
	if (uio < 0)
		fail(argv[2]);
	engine[SOURCE] = physical(pages);
	engine[DESTINATION] = physical(pages + PAGE);
	engine[LENGTH] = PAGE;
	engine[CONTROL] = 3;
	if (read(uio, &interrupts, 4) != 4)
		fail("interrupt");
	printf("status %" PRIu64 " after %u interrupts\n", engine[STATUS], interrupts);
	engine[STATUS] = 1;
	printf("%s, then status %" PRIu64 "\n", memcmp(pages, pages + PAGE, PAGE) ? "differs" : "copied", engine[STATUS]);
	/* INTx is enabled again and must stay inactive. */
	set(config, 4, 2, command);
	by_msix(config, engine, (volatile uint32_t *)(pages + 2 * PAGE));
	by_msi(config, engine, (volatile uint32_t *)(pages + 2 * PAGE));
	fcntl(uio, F_SETFL, O_NONBLOCK);
	printf("pin: %s\n", read(uio, &interrupts, 4) == 4 ? "interrupts" : "inactive");
	return 0;
}
