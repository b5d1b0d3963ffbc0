/* memcached-shards: memcached-dpdk (guest/programs/memcached-dpdk) on several cores that share nothing.
 * Each core has its own store and its own pair of queues on every port. Core N serves UDP port `udp-port`
 * + N, which a filter of the NIC steers to queue N. Clients choose the port by the key, as with several
 * servers. All other frames (ARP, echo) go to queue 0. */
#include "common/ports.h"

static void transmit_from_shard(struct ports *own, uint16_t port, struct rte_mbuf **packets, uint16_t count);
#define TRANSMIT transmit_from_shard
#include "memcached-dpdk/answer.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_flow.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_pause.h>

/* Polling rounds between two reads of the clock: at most milliseconds, for a clock of seconds. */
#define ROUNDS_A_LOOK 1024
/* Number of such filters in an 82576. */
#define CORES_MAX 8

/* Each shard has its own copy of `server.ports` for its counts. */
struct shard {
    struct server server;
    uint16_t number;
} __rte_cache_aligned;

static struct ports ports;
static struct shard shards[CORES_MAX];
static uint64_t cores = 1, memory_bytes = 64 << 20, buckets, address = RTE_IPV4(10, 0, 0, 2), udp_port = 11211, seed;
static unsigned int started;

static const struct option_number OPTIONS[] = {
    {"cores", "cores in all, as many as EAL has", &cores, 1, CORES_MAX},
    {"memory", "bytes of each core's store, its hash table included", &memory_bytes, 4096, (uint64_t)1 << 38},
    {"buckets", "of each hash table, 4 bytes each, a power of two; 0: half as many as cells, to as many", &buckets, 0,
     (uint64_t)1 << 31},
    {"address", "IPv4 address of port 0 as one number, 10.0.0.2; port N has 256 N more", &address, 1, UINT32_MAX},
    {"udp-port", "where requests to the first core are taken; those to the others at the ports after it", &udp_port, 1,
     UINT16_MAX - CORES_MAX},
    {"seed", "of the hash function", &seed, 0, UINT64_MAX},
    {NULL, NULL, NULL, 0, 0},
};

static void transmit_from_shard(struct ports *own, uint16_t port, struct rte_mbuf **packets, uint16_t count)
{
    const struct shard *shard = (struct shard *)((char *)own - offsetof(struct shard, server.ports));
    struct port_counts *counts = &own->counts[port];
    uint16_t sent = rte_eth_tx_burst(port, shard->number, packets, count);

    counts->transmitted += sent;
    if (unlikely(sent < count)) {
        counts->not_transmitted += count - sent;
        rte_pktmbuf_free_bulk(packets + sent, count - sent);
    }
}

static void poll_port(struct shard *shard, uint16_t port)
{
    struct server *server = &shard->server;
    struct port_counts *counts = &server->ports.counts[port];
    struct rte_mbuf *frames[BURST_MAX];
    uint16_t received = rte_eth_rx_burst(port, shard->number, frames, (uint16_t)ports.footprint.burst);

    counts->polls++;
    counts->empty_polls += received == 0;
    counts->received += received;
    server->port = port;
    for (uint16_t frame = 0; frame < received; frame++)
        take(server, frames[frame]);
    if (server->out_count > 0)
        transmit(server);
}

static int run(void *unused)
{
    struct shard *shard = &shards[rte_lcore_index(-1)];
    uint32_t began = shard->server.store.now;
    uint64_t cycles = rte_get_timer_cycles(), hertz = rte_get_timer_hz();

    (void)unused;
    if (shard->number == 0) {
        while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < cores - 1)
            rte_pause();
        ports_ready();
    } else {
        __atomic_fetch_add(&started, 1, __ATOMIC_RELEASE);
    }
    for (uint32_t round = 1; !ports_interrupted; round++) {
        for (uint16_t port = 0; port < ports.count; port++)
            poll_port(shard, port);
        if (round % ROUNDS_A_LOOK == 0)
            store_set_clock(&shard->server.store, began + (uint32_t)((rte_get_timer_cycles() - cycles) / hertz));
    }
    return 0;
}

/* Makes the NIC steer frames for a shard's UDP port to the shard's queue. */
static void filter(uint16_t port, const struct shard *shard)
{
    const struct rte_flow_attr attributes = {.ingress = 1, .priority = 1};
    const struct rte_flow_item_ipv4 ip = {.hdr.next_proto_id = IPPROTO_UDP}, ip_mask = {.hdr.next_proto_id = UINT8_MAX};
    const struct rte_flow_item_udp udp = {.hdr.dst_port = rte_cpu_to_be_16((uint16_t)(udp_port + shard->number))};
    const struct rte_flow_item_udp udp_mask = {.hdr.dst_port = UINT16_MAX};
    const struct rte_flow_action_queue queue = {.index = shard->number};
    const struct rte_flow_item pattern[] = {
        {.type = RTE_FLOW_ITEM_TYPE_ETH},
        {.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &ip, .mask = &ip_mask},
        {.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &udp_mask},
        {.type = RTE_FLOW_ITEM_TYPE_END},
    };
    const struct rte_flow_action actions[] = {
        {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue},
        {.type = RTE_FLOW_ACTION_TYPE_END},
    };
    struct rte_flow_error error = {0};

    if (rte_flow_create(port, &attributes, pattern, actions, &error) == NULL)
        rte_exit(EXIT_FAILURE,
                 "memcached-shards: port %u: no filter for UDP port %" PRIu64 " to queue %u (%s); use memcached-dpdk\n",
                 port, udp_port + shard->number, shard->number, error.message ? error.message : "no reason given");
}

static void start_shard(struct shard *shard, uint16_t number)
{
    struct server *server = &shard->server;
    const struct store_shape shape = {memory_bytes, buckets, seed};
    void *memory = rte_malloc("store", memory_bytes, RTE_CACHE_LINE_SIZE);

    if (memory == NULL)
        rte_exit(EXIT_FAILURE,
                 "memcached-shards: no %" PRIu64 " bytes for the store of core %u: give a smaller --memory, or EAL more\n",
                 memory_bytes, number);
    const char *wrong = store_init(&server->store, &shape, memory);
    if (wrong != NULL)
        rte_exit(EXIT_FAILURE, "memcached-shards: %s\n", wrong);
    shard->number = number;
    server->ports = ports;
    store_set_clock(&server->store, (uint32_t)time(NULL));
    server->protocol = (struct protocol){.store = &server->store, .started = server->store.now};
    for (uint16_t port = 0; port < ports.count; port++) {
        struct station *station = &server->stations[port];
        station->ip = (uint32_t)(address + 256 * port);
        station->udp_port = (uint16_t)(udp_port + number);
        if (rte_eth_macaddr_get(port, &station->mac) != 0)
            rte_exit(EXIT_FAILURE, "memcached-shards: port %u does not tell its address\n", port);
        if (number > 0)
            filter(port, shard);
    }
}

static void print_counts(void)
{
    for (unsigned int core = 0; core < cores; core++) {
        const struct server *server = &shards[core].server;
        const struct store *store = &server->store;

        printf("core %u: requests %" PRIu64 ", foreign %" PRIu64 ", wrong %" PRIu64 "; keys got %" PRIu64
               ", stores %" PRIu64 ", errors %" PRIu64 "; hits %" PRIu64 ", misses %" PRIu64 ", items %u, evictions %" PRIu64
               "\n",
               core, server->net.requests, server->net.foreign, server->net.wrong, server->protocol.counts.gets,
               server->protocol.counts.stores, server->protocol.counts.errors, store->counts.hits, store->counts.misses,
               store->item_count, store->counts.evictions);
    }
}

int main(int argc, char **argv)
{
    ports_begin(&ports, "memcached-shards", argc, argv, OPTIONS);
    if (cores != rte_lcore_count())
        rte_exit(EXIT_FAILURE, "memcached-shards: --cores=%" PRIu64 ", and EAL has %u; give it as many --lcores\n", cores,
                 rte_lcore_count());
    if (ports.enough != UINT64_MAX)
        rte_exit(EXIT_FAILURE, "memcached-shards: --frames is for programs with one core; end this one by SIGINT\n");
    ports_open(&ports, (uint16_t)cores, false);
    for (uint16_t core = 0; core < cores; core++)
        start_shard(&shards[core], core);
    rte_eal_mp_remote_launch(run, NULL, CALL_MAIN);
    rte_eal_mp_wait_lcore();
    print_counts();
    return ports_stop(&ports);
}
