/* Common parts of our DPDK programs: EAL and queue pairs on every port, options for the memory footprint,
 * and a clean exit. A program calls `ports_start` and `ports_ready`, loops while `ports_running`, and ends
 * with `ports_stop`. A program with several queues calls `ports_begin` and `ports_open` instead of
 * `ports_start`. */
#ifndef DOORBELL_PORTS_H
#define DOORBELL_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define PORTS_MAX 8
#define BURST_MAX 512

/* Parameters of a program's cache footprint, with testpmd's names and defaults where it has them. */
struct footprint {
    uint64_t rxd;     /* receive descriptors per port */
    uint64_t txd;     /* transmit descriptors per port */
    uint64_t burst;   /* packets per burst, up to BURST_MAX */
    uint64_t mbufs;   /* total packet buffers */
    uint64_t mbcache; /* per-core cache of buffers */
    uint64_t txrst;   /* transmit descriptors between two write-backs; 0: the driver's default */
};

/* An option `--name=NUMBER`. */
struct option_number {
    const char *name;
    const char *meaning;
    uint64_t *value;
    uint64_t min, max;
};

/* Counted by the main loops, printed by `ports_stop`. */
struct port_counts {
    uint64_t received;
    uint64_t transmitted;
    uint64_t not_transmitted; /* freed, because the transmit ring was full */
    uint64_t polls;           /* calls of rte_eth_rx_burst */
    uint64_t empty_polls;     /* calls that returned no packet */
};

struct ports {
    const char *program;
    struct footprint footprint;
    struct rte_mempool *pool;
    uint16_t count;
    uint64_t received; /* by all ports */
    uint64_t enough;   /* end the program after this many received packets */
    struct port_counts counts[PORTS_MAX];
};

/* Starts EAL, parses the options after `--` and allocates packet buffers. `own` ends with an entry whose
 * name is NULL, and may be NULL. Like all these functions, it exits with a message on an error. */
void ports_begin(struct ports *ports, const char *program, int argc, char **argv, const struct option_number *own);

/* Sets up and starts all ports with the given number of queues in each direction, and waits for their
 * links. With `rss`, ports that support it spread flows over the queues by RSS and report each packet's
 * hash. */
void ports_open(struct ports *ports, uint16_t queues, bool rss);

/* Both of the above, with one queue in each direction and without hashes. */
void ports_start(struct ports *ports, const char *program, int argc, char **argv, const struct option_number *own);

/* Prints "doorbell: ready": the program is ready to receive frames. */
void ports_ready(void);

/* Prints the counts, stops the ports and EAL. Returns the program's exit status. */
int ports_stop(struct ports *ports);

extern volatile bool ports_interrupted;

/* Whether to continue: until SIGINT or SIGTERM, or until the number of received packets reaches
 * `--frames`. */
static inline bool ports_running(const struct ports *ports)
{
    return !ports_interrupted && ports->received < ports->enough;
}

/* Receives up to a burst, and updates the counts. */
static inline uint16_t ports_receive(struct ports *ports, uint16_t port, struct rte_mbuf **packets)
{
    struct port_counts *counts = &ports->counts[port];
    uint16_t received = rte_eth_rx_burst(port, 0, packets, (uint16_t)ports->footprint.burst);

    counts->polls++;
    counts->empty_polls += received == 0;
    counts->received += received;
    ports->received += received;
    return received;
}

/* Transmits as many packets as fit into the ring, frees the rest, and updates the counts. */
void ports_transmit(struct ports *ports, uint16_t port, struct rte_mbuf **packets, uint16_t count);

/* Exchanges the packet's Ethernet addresses, to send it back. */
void ports_swap_addresses(struct rte_mbuf *packet);

#endif
