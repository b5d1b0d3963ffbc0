/* memcached-dpdk: a key-value store with memcached's text protocol over UDP, on DPDK. One core polls all
 * ports, and completes each burst of requests before it receives the next.
 *
 *     memcached-dpdk EAL-OPTIONS -- [OPTIONS], see --help
 *
 * Memory touched by a request, in addition to the rings, the frame's buffer and the store (see store.h):
 * its text is copied to one fixed buffer, so that its frame's buffer can hold the first datagram of the
 * answer; further datagrams take buffers from the pool. */
#define TRANSMIT ports_transmit
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

/* Polling rounds between two reads of the clock: at most milliseconds, for a clock of seconds. */
#define ROUNDS_A_LOOK 1024

static uint64_t memory_bytes = 64 << 20;
static uint64_t buckets;
static uint64_t address = RTE_IPV4(10, 0, 0, 2);
static uint64_t udp_port = 11211;
static uint64_t seed;

static const struct option_number OPTIONS[] = {
    {"memory", "bytes of the store, its hash table included", &memory_bytes, 4096, (uint64_t)1 << 38},
    {"buckets", "of the hash table, 4 bytes each, a power of two; 0: half as many as cells, to as many", &buckets, 0,
     (uint64_t)1 << 31},
    {"address", "IPv4 address of port 0 as one number, 10.0.0.2; port N has 256 N more", &address, 1, UINT32_MAX},
    {"udp-port", "where requests are taken", &udp_port, 1, UINT16_MAX},
    {"seed", "of the hash function", &seed, 0, UINT64_MAX},
    {NULL, NULL, NULL, 0, 0},
};

static void poll_port(struct server *server, uint16_t port)
{
    struct rte_mbuf *frames[BURST_MAX];
    uint16_t received = ports_receive(&server->ports, port, frames);
    server->port = port;
    for (uint16_t frame = 0; frame < received; frame++)
        take(server, frames[frame]);
    if (server->out_count > 0)
        transmit(server);
}

static void start(struct server *server, int argc, char **argv)
{
    struct ports *ports = &server->ports;
    ports_start(ports, "memcached-dpdk", argc, argv, OPTIONS);
    for (uint16_t port = 0; port < ports->count; port++) {
        struct station *station = &server->stations[port];
        station->ip = (uint32_t)(address + 256 * port);
        station->udp_port = (uint16_t)udp_port;
        if (rte_eth_macaddr_get(port, &station->mac) != 0)
            rte_exit(EXIT_FAILURE, "memcached-dpdk: port %u does not tell its address\n", port);
    }
    const struct store_shape shape = {memory_bytes, buckets, seed};
    void *memory = rte_malloc("store", memory_bytes, RTE_CACHE_LINE_SIZE);
    if (memory == NULL)
        rte_exit(EXIT_FAILURE,
                 "memcached-dpdk: no %" PRIu64 " bytes for the store: give a smaller --memory, or EAL more\n",
                 memory_bytes);
    const char *wrong = store_init(&server->store, &shape, memory);
    if (wrong != NULL)
        rte_exit(EXIT_FAILURE, "memcached-dpdk: %s\n", wrong);
    store_set_clock(&server->store, (uint32_t)time(NULL));
    server->protocol = (struct protocol){.store = &server->store, .started = server->store.now};
    ports_ready();
}

static void print_counts(const struct server *server)
{
    const struct net_counts *net = &server->net;
    const struct protocol_counts *protocol = &server->protocol.counts;
    const struct store *store = &server->store;
    printf("frames: requests %" PRIu64 ", ARP %" PRIu64 ", echo %" PRIu64 ", foreign %" PRIu64 ", wrong %" PRIu64 "\n",
           net->requests, net->arp, net->echo, net->foreign, net->wrong);
    printf("requests: refused %" PRIu64 ", replies lost %" PRIu64 "; keys got %" PRIu64 ", stores %" PRIu64
           ", errors %" PRIu64 "\n",
           protocol->refused, protocol->lost, protocol->gets, protocol->stores, protocol->errors);
    printf("store: hits %" PRIu64 ", misses %" PRIu64 ", items %u, evictions %" PRIu64 ", cells used %u of %u\n",
           store->counts.hits, store->counts.misses, store->item_count, store->counts.evictions, store->cells.used,
           store->cells.count);
}

int main(int argc, char **argv)
{
    static struct server server;
    start(&server, argc, argv);
    uint32_t started = server.store.now;
    uint64_t cycles = rte_get_timer_cycles(), hertz = rte_get_timer_hz();
    for (uint32_t round = 1; ports_running(&server.ports); round++) {
        for (uint16_t port = 0; port < server.ports.count; port++)
            poll_port(&server, port);
        if (round % ROUNDS_A_LOOK == 0)
            store_set_clock(&server.store, started + (uint32_t)((rte_get_timer_cycles() - cycles) / hertz));
    }
    print_counts(&server);
    return ports_stop(&server.ports);
}
