/* What our DPDK programs share: EAL and queue pairs on every port, the options that shape their footprint, and a
 * clean end. A program calls `ports_start` and `ports_ready`, loops while `ports_running`, and ends with
 * `ports_stop`. One with several queues calls `ports_begin` and `ports_open` in place of the first. */
#ifndef DOORBELL_PORTS_H
#define DOORBELL_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define PORTS_MAX 8
#define BURST_MAX 512

/* What decides how many cache lines a program touches. The names and defaults are testpmd's, where it has them. */
struct footprint {
    uint64_t rxd;     /* receive descriptors a port */
    uint64_t txd;     /* transmit descriptors a port */
    uint64_t burst;   /* packets a burst, up to BURST_MAX */
    uint64_t mbufs;   /* packet buffers in all */
    uint64_t mbcache; /* buffers that a core keeps to itself */
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
    uint64_t empty_polls;     /* of these, those that gave nothing */
};

struct ports {
    const char *program;
    struct footprint footprint;
    struct rte_mempool *pool;
    uint16_t count;
    uint64_t received; /* by all ports */
    uint64_t enough;   /* so many received packets end the program */
    struct port_counts counts[PORTS_MAX];
};

/* Starts EAL, reads the options behind `--` and allocates packet buffers. `own` ends with an entry whose name is NULL,
 * and may be NULL. Ends the program with a message if something is wrong, as all of these do. */
void ports_begin(struct ports *ports, const char *program, int argc, char **argv, const struct option_number *own);

/* Sets up and starts all ports with so many queues each way and waits for their links. With `rss`, ports that can hash
 * flows, spread them over the queues by it, and give each packet's hash. */
void ports_open(struct ports *ports, uint16_t queues, bool rss);

/* Both, with one queue each way and without hashes. */
void ports_start(struct ports *ports, const char *program, int argc, char **argv, const struct option_number *own);

/* Prints "doorbell: ready": the program is about to take frames. */
void ports_ready(void);

/* Prints what was counted, stops the ports and EAL. Returns the program's exit status. */
int ports_stop(struct ports *ports);

extern volatile bool ports_interrupted;

/* Whether to go on: until SIGINT or SIGTERM, or until as many packets were received as `--frames` says. */
static inline bool ports_running(const struct ports *ports)
{
    return !ports_interrupted && ports->received < ports->enough;
}

/* Receives up to a burst, and counts. */
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

/* Transmits what fits into the ring, frees the rest, and counts. */
void ports_transmit(struct ports *ports, uint16_t port, struct rte_mbuf **packets, uint16_t count);

/* Sends a packet back to where it came from: exchanges the Ethernet addresses. */
void ports_swap_addresses(struct rte_mbuf *packet);

#endif
