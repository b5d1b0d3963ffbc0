/* cores: receives packets, processes them and sends them back, on several cores. Run to completion: each
 * core does all three with its own queues. Pipeline: the first core receives, the last one transmits, and
 * the cores between process, over rings with one producer and one consumer each. Packets of a flow stay in
 * order in both modes: RSS spreads them, in the pipeline by the hash that the NIC reports per packet. */
#include "common/ports.h"
#include "touch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>
#include <rte_ring.h>

/* Queues in each direction of an 82576's port, which limits the number of cores. */
#define CORES_MAX 16
#define WORK_NS_MAX 1000000000ull
/* Entries of the NIC's redirection table; drivers give each queue the same number of them. */
#define REDIRECTIONS 128

enum work { SWAP, TOUCH_AND_SWAP, TOUCH_AND_DROP, WAIT_AND_SWAP, WORKS };

/* Per-core state. */
struct lane {
    unsigned int number;
    /* For a worker of the pipeline: from the receiving core, and to the transmitting core. */
    struct rte_ring *in, *out;
    struct port_counts counts;
    uint64_t waits; /* waits for room in a ring */
    uint64_t sum;
} __rte_cache_aligned;

static struct ports ports;
static struct lane lanes[CORES_MAX];
static uint64_t cores = 1, pipeline, work = SWAP, load_bytes = 1, prefetch = 1, work_ns = 10, ring = 1024;
static uint64_t work_ticks;
static unsigned int started;

static const struct option_number OPTIONS[] = {
    {"cores", "cores in all, as many as EAL has", &cores, 1, CORES_MAX},
    {"pipeline", "1: the first core receives, the last transmits, the others work", &pipeline, 0, 1},
    {"work", "0: exchange addresses; 1: read all bytes as well; 2: read them and drop; 3: work a set time a burst", &work,
     SWAP, WORKS - 1},
    {"ring", "entries of each ring of the pipeline, a power of two", &ring, 64, 1 << 20},
    {"work-ns", "nanoseconds of work a burst, by DPDK's clock", &work_ns, 0, WORK_NS_MAX},
    TOUCH_OPTION(&load_bytes),
    TOUCH_PREFETCH_OPTION(&prefetch),
    {NULL, NULL, NULL, 0, 0},
};

static void work_on(struct lane *lane, struct rte_mbuf **packets, uint16_t count)
{
    if (work == WAIT_AND_SWAP) {
        uint64_t end = rte_get_timer_cycles() + work_ticks;

        while (rte_get_timer_cycles() < end)
            rte_pause();
    }
    for (uint16_t i = 0; i < count; i++) {
        if (work == TOUCH_AND_SWAP || work == TOUCH_AND_DROP) {
            if (prefetch && i + 1 < count)
                touch_prefetch(packets[i + 1]);
            lane->sum += touch(packets[i], load_bytes);
        }
        if (work != TOUCH_AND_DROP)
            ports_swap_addresses(packets[i]);
    }
}

static uint16_t receive(struct lane *lane, uint16_t port, uint16_t queue, struct rte_mbuf **packets)
{
    uint16_t received = rte_eth_rx_burst(port, queue, packets, (uint16_t)ports.footprint.burst);

    lane->counts.polls++;
    lane->counts.empty_polls += received == 0;
    lane->counts.received += received;
    return received;
}

static void transmit(struct lane *lane, uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t count)
{
    uint16_t sent = rte_eth_tx_burst(port, queue, packets, count);

    lane->counts.transmitted += sent;
    if (unlikely(sent < count)) {
        lane->counts.not_transmitted += count - sent;
        rte_pktmbuf_free_bulk(packets + sent, count - sent);
    }
}

static void run_to_completion(struct lane *lane)
{
    struct rte_mbuf *packets[BURST_MAX];
    uint16_t queue = (uint16_t)lane->number;

    while (!ports_interrupted) {
        for (uint16_t port = 0; port < ports.count; port++) {
            uint16_t received = receive(lane, port, queue, packets);

            if (received == 0)
                continue;
            work_on(lane, packets, received);
            if (work == TOUCH_AND_DROP)
                rte_pktmbuf_free_bulk(packets, received);
            else
                transmit(lane, port, queue, packets, received);
        }
    }
}

/* Waits while a ring is full. Frames then wait in the NIC, which counts those it has no room for. */
static void hand_on(struct lane *lane, struct rte_ring *to, struct rte_mbuf **packets, unsigned int count)
{
    unsigned int done = 0;

    for (;;) {
        done += rte_ring_sp_enqueue_burst(to, (void **)(packets + done), count - done, NULL);
        if (done == count || ports_interrupted)
            return;
        lane->waits++;
        rte_pause();
    }
}

static void run_receiver(struct lane *lane)
{
    static struct rte_mbuf *sorted[CORES_MAX][BURST_MAX];
    struct rte_mbuf *packets[BURST_MAX];
    unsigned int workers = (unsigned int)cores - 2;

    while (!ports_interrupted) {
        for (uint16_t port = 0; port < ports.count; port++) {
            uint16_t received = receive(lane, port, 0, packets);
            uint16_t counts[CORES_MAX] = {0};

            for (uint16_t i = 0; i < received; i++) {
                bool hashed = packets[i]->ol_flags & RTE_MBUF_F_RX_RSS_HASH;
                unsigned int worker = hashed ? packets[i]->hash.rss % REDIRECTIONS % workers : 0;

                sorted[worker][counts[worker]++] = packets[i];
            }
            for (unsigned int worker = 0; worker < workers; worker++)
                if (counts[worker])
                    hand_on(lane, lanes[1 + worker].in, sorted[worker], counts[worker]);
        }
    }
}

static uint16_t take(struct lane *lane, struct rte_ring *from, struct rte_mbuf **packets)
{
    unsigned int taken =
        rte_ring_sc_dequeue_burst(from, (void **)packets, (unsigned int)ports.footprint.burst, NULL);

    lane->counts.polls++;
    lane->counts.empty_polls += taken == 0;
    return (uint16_t)taken;
}

static void run_worker(struct lane *lane)
{
    struct rte_mbuf *packets[BURST_MAX];

    while (!ports_interrupted) {
        uint16_t taken = take(lane, lane->in, packets);

        if (taken == 0)
            continue;
        work_on(lane, packets, taken);
        if (work == TOUCH_AND_DROP)
            rte_pktmbuf_free_bulk(packets, taken);
        else
            hand_on(lane, lane->out, packets, taken);
    }
}

static void run_transmitter(struct lane *lane)
{
    struct rte_mbuf *packets[BURST_MAX];

    while (!ports_interrupted) {
        for (unsigned int worker = 1; worker + 1 < cores; worker++) {
            uint16_t taken = take(lane, lanes[worker].out, packets);

            /* Packets of one port are sent together. */
            for (uint16_t from = 0, to; from < taken; from = to) {
                for (to = from + 1; to < taken && packets[to]->port == packets[from]->port; to++)
                    ;
                transmit(lane, packets[from]->port, 0, packets + from, to - from);
            }
        }
    }
}

static int run(void *unused)
{
    unsigned int number = (unsigned int)rte_lcore_index(-1);
    struct lane *lane = &lanes[number];

    (void)unused;
    lane->number = number;
    if (number == 0) {
        while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < cores - 1)
            rte_pause();
        ports_ready();
    } else {
        __atomic_fetch_add(&started, 1, __ATOMIC_RELEASE);
    }
    if (!pipeline)
        run_to_completion(lane);
    else if (number == 0)
        run_receiver(lane);
    else if (number + 1 == cores)
        run_transmitter(lane);
    else
        run_worker(lane);
    return 0;
}

static struct rte_ring *ring_of(const char *kind, unsigned int worker)
{
    char name[32];

    snprintf(name, sizeof(name), "%s%u", kind, worker);
    struct rte_ring *made = rte_ring_create(name, (unsigned int)ring, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);

    if (made == NULL)
        rte_exit(EXIT_FAILURE, "cores: no ring of %" PRIu64 " entries: %s\n", ring, rte_strerror(rte_errno));
    return made;
}

static void print_counts(void)
{
    for (unsigned int core = 0; core < cores; core++) {
        const struct port_counts *counts = &lanes[core].counts;

        printf("core %u: received %" PRIu64 ", transmitted %" PRIu64 ", not transmitted %" PRIu64 ", polls %" PRIu64
               ", empty polls %" PRIu64 ", waits for a ring %" PRIu64 ", sum of what was read %" PRIx64 "\n",
               core, counts->received, counts->transmitted, counts->not_transmitted, counts->polls, counts->empty_polls,
               lanes[core].waits, lanes[core].sum);
    }
}

int main(int argc, char **argv)
{
    ports_begin(&ports, "cores", argc, argv, OPTIONS);
    if (cores != rte_lcore_count())
        rte_exit(EXIT_FAILURE, "cores: --cores=%" PRIu64 ", and EAL has %u; give it as many --lcores\n", cores,
                 rte_lcore_count());
    if (pipeline && cores < 3)
        rte_exit(EXIT_FAILURE, "cores: a pipeline has 3 cores at least\n");
    if (ports.enough != UINT64_MAX)
        rte_exit(EXIT_FAILURE, "cores: --frames is for programs with one core; end this one by SIGINT\n");
    work_ticks = (work_ns * rte_get_timer_hz() + NS_PER_S - 1) / NS_PER_S;
    for (unsigned int worker = 1; pipeline && worker + 1 < cores; worker++) {
        lanes[worker].in = ring_of("in", worker);
        lanes[worker].out = ring_of("out", worker);
    }
    ports_open(&ports, pipeline ? 1 : (uint16_t)cores, true);
    rte_eal_mp_remote_launch(run, NULL, CALL_MAIN);
    rte_eal_mp_wait_lcore();
    print_counts();
    return ports_stop(&ports);
}
