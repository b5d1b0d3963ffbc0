/* Drives the copy engine from user space, through uio_pci_generic: copies a page to another, waits for the interrupt, and compares.
 * copy DEVICE UIO, such as copy 0000:00:05.0 /dev/uio1 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
enum { SOURCE, DESTINATION, LENGTH, CONTROL, STATUS };

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

/* Where a page of ours is in memory (Documentation/admin-guide/mm/pagemap.rst). */
static uint64_t physical(const void *page)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY);
	if (fd < 0 || pread(fd, &entry, 8, (uintptr_t)page / PAGE * 8) != 8)
		fail("pagemap");
	close(fd);
	return (entry & ((UINT64_C(1) << 55) - 1)) * PAGE;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int config = open_in(argv[1], "config"), resource = open_in(argv[1], "resource0");
	uint16_t command;
	if (pread(config, &command, 2, 4) != 2)
		fail("config");
	command |= 6;       /* memory and bus mastering */
	command &= ~0x400; /* each interrupt that uio_pci_generic tells of switches its pin off */
	if (pwrite(config, &command, 2, 4) != 2)
		fail("config");
	volatile uint64_t *engine = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, resource, 0);
	unsigned char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (engine == MAP_FAILED || pages == MAP_FAILED || mlock(pages, 2 * PAGE))
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
	return 0;
}
