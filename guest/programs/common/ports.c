#include "ports.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ether.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

/* Longest time to wait for a link. */
#define LINK_WAIT_MS 9000
#define LINK_STEP_US 100

volatile bool ports_interrupted;

static void interrupt(int signal)
{
    (void)signal;
    ports_interrupted = true;
}

static struct footprint footprint = {.rxd = 1024, .txd = 1024, .burst = 32, .mbufs = 4096, .mbcache = 250};

static uint64_t frames;

static const struct option_number COMMON[] = {
    {"rxd", "descriptors in each receive ring", &footprint.rxd, 32, 32768},
    {"txd", "descriptors in each transmit ring", &footprint.txd, 32, 32768},
    {"burst", "packets a burst", &footprint.burst, 1, BURST_MAX},
    {"total-num-mbufs", "packet buffers", &footprint.mbufs, 64, 1 << 24},
    {"mbcache", "buffers that a core keeps to itself", &footprint.mbcache, 0, RTE_MEMPOOL_CACHE_MAX_SIZE},
    {"txrst", "transmit descriptors between two write-backs, 0: as the driver likes", &footprint.txrst, 0, 32768},
    {"frames", "end after so many received packets; 0: never", &frames, 0, UINT64_MAX},
    {NULL, NULL, NULL, 0, 0},
};

static void describe(FILE *out, const struct option_number *option)
{
    for (; option && option->name; option++)
        fprintf(out, "  --%s=N  %s (%" PRIu64 ")\n", option->name, option->meaning, *option->value);
}

static void usage(FILE *out, const char *program, const struct option_number *own)
{
    fprintf(out, "usage: %s EAL-OPTIONS -- [OPTIONS]\n", program);
    describe(out, own);
    describe(out, COMMON);
}

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* Parses `--name=NUMBER`; returns false if `word` is none of these options. */
static bool read_option(const char *program, const char *word, const struct option_number *option)
{
    for (; option && option->name; option++) {
        size_t length = strlen(option->name);
        if (strncmp(word, "--", 2) || strncmp(word + 2, option->name, length) || word[2 + length] != '=')
            continue;
        const char *digits = word + 3 + length;
        char *end;
        errno = 0;
        uint64_t value = strtoull(digits, &end, 10);
        if (*end || end == digits || *digits == '-' || errno || value < option->min || value > option->max)
            rte_exit(EXIT_FAILURE, "%s: %s: give a number from %" PRIu64 " to %" PRIu64 "\n", program, word,
                     option->min, option->max);
        *option->value = value;
        return true;
    }
    return false;
}

static void read_options(const char *program, int argc, char **argv, const struct option_number *own)
{
    for (int i = 1; i < argc; i++) {
        if (read_option(program, argv[i], own) || read_option(program, argv[i], COMMON))
            continue;
        usage(stderr, program, own);
        rte_exit(EXIT_FAILURE, "%s: there is no option %s\n", program, argv[i]);
    }
}

static void check(const struct ports *ports, uint16_t port, int result, const char *what)
{
    if (result < 0)
        rte_exit(EXIT_FAILURE, "%s: port %u: cannot %s: %s\n", ports->program, port, what, rte_strerror(-result));
}

static void start_port(const struct ports *ports, uint16_t port, uint16_t queues, bool rss)
{
    const struct footprint *f = &ports->footprint;
    uint16_t rxd = (uint16_t)f->rxd, txd = (uint16_t)f->txd;
    unsigned int socket = (unsigned int)SOCKET_ID_ANY;
    struct rte_eth_conf config = {0};
    struct rte_eth_dev_info info;
    struct rte_eth_txconf tx;

    check(ports, port, rte_eth_dev_info_get(port, &info), "ask what it is");
    if (queues > info.max_rx_queues || queues > info.max_tx_queues)
        rte_exit(EXIT_FAILURE, "%s: port %u has %u queues to receive and %u to transmit, and %u are needed\n",
                 ports->program, port, info.max_rx_queues, info.max_tx_queues, queues);
    if (rss && info.flow_type_rss_offloads) {
        config.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        config.rx_adv_conf.rss_conf.rss_hf =
            (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP) & info.flow_type_rss_offloads;
    }
    check(ports, port, rte_eth_dev_configure(port, queues, queues, &config), "configure it");
    check(ports, port, rte_eth_dev_adjust_nb_rx_tx_desc(port, &rxd, &txd), "set the rings' sizes");
    if (rxd != f->rxd || txd != f->txd)
        rte_exit(EXIT_FAILURE,
                 "%s: port %u: its rings cannot have %" PRIu64 " and %" PRIu64 " descriptors; %u and %u would do\n",
                 ports->program, port, f->rxd, f->txd, rxd, txd);
    tx = info.default_txconf;
    if (f->txrst)
        tx.tx_rs_thresh = (uint16_t)f->txrst;
    for (uint16_t queue = 0; queue < queues; queue++) {
        check(ports, port, rte_eth_rx_queue_setup(port, queue, rxd, socket, NULL, ports->pool),
              "set up a receive ring");
        check(ports, port, rte_eth_tx_queue_setup(port, queue, txd, socket, &tx), "set up a transmit ring");
    }
    check(ports, port, rte_eth_dev_start(port), "start it");
    /* A virtual port (pcap, ring) has no address filter and may not support the call. */
    int result = rte_eth_promiscuous_enable(port);
    if (result != -ENOTSUP)
        check(ports, port, result, "receive frames for all addresses");
}

static void wait_for_link(const struct ports *ports, uint16_t port)
{
    struct rte_eth_link link = {0};

    for (int us = 0; us < LINK_WAIT_MS * 1000 && !ports_interrupted; us += LINK_STEP_US) {
        check(ports, port, rte_eth_link_get_nowait(port, &link), "ask for its link");
        if (link.link_status == RTE_ETH_LINK_UP)
            return;
        rte_delay_us_block(LINK_STEP_US);
    }
    if (!ports_interrupted)
        rte_exit(EXIT_FAILURE, "%s: port %u has no link\n", ports->program, port);
}

void ports_begin(struct ports *ports, const char *program, int argc, char **argv, const struct option_number *own)
{
    memset(ports, 0, sizeof(*ports));
    ports->program = program;
    for (int i = 1; i < argc; i++) {
        if (!is_help(argv[i]))
            continue;
        usage(stdout, program, own);
        exit(EXIT_SUCCESS);
    }
    int used = rte_eal_init(argc, argv);
    if (used < 0)
        rte_exit(EXIT_FAILURE, "%s: EAL does not start: %s\n", program, rte_strerror(rte_errno));
    read_options(program, argc - used, argv + used, own);
    ports->footprint = footprint;
    ports->enough = frames ? frames : UINT64_MAX;
    ports->count = rte_eth_dev_count_avail();
    if (ports->count == 0 || ports->count > PORTS_MAX)
        rte_exit(EXIT_FAILURE, "%s: there are %u ports; use 1 to %u\n", program, ports->count, PORTS_MAX);
    ports->pool = rte_pktmbuf_pool_create("packets", (unsigned int)footprint.mbufs, (unsigned int)footprint.mbcache, 0,
                                          RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (!ports->pool)
        rte_exit(EXIT_FAILURE, "%s: no memory for %" PRIu64 " packet buffers: %s\n", program, footprint.mbufs,
                 rte_strerror(rte_errno));
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
}

void ports_open(struct ports *ports, uint16_t queues, bool rss)
{
    for (uint16_t port = 0; port < ports->count; port++)
        start_port(ports, port, queues, rss);
    for (uint16_t port = 0; port < ports->count; port++)
        wait_for_link(ports, port);
}

void ports_start(struct ports *ports, const char *program, int argc, char **argv, const struct option_number *own)
{
    ports_begin(ports, program, argc, argv, own);
    ports_open(ports, 1, false);
}

void ports_ready(void)
{
    printf("doorbell: ready\n");
    fflush(stdout);
}

int ports_stop(struct ports *ports)
{
    for (uint16_t port = 0; port < ports->count; port++) {
        const struct port_counts *counts = &ports->counts[port];

        /* A program that counts per core has no counts here. */
        if (counts->polls)
            printf("port %u: received %" PRIu64 ", transmitted %" PRIu64 ", not transmitted %" PRIu64 ", polls %" PRIu64
                   ", empty polls %" PRIu64 "\n",
                   port, counts->received, counts->transmitted, counts->not_transmitted, counts->polls,
                   counts->empty_polls);
        check(ports, port, rte_eth_dev_stop(port), "stop it");
        check(ports, port, rte_eth_dev_close(port), "close it");
    }
    return rte_eal_cleanup() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

void ports_transmit(struct ports *ports, uint16_t port, struct rte_mbuf **packets, uint16_t count)
{
    uint16_t sent = rte_eth_tx_burst(port, 0, packets, count);

    ports->counts[port].transmitted += sent;
    if (unlikely(sent < count)) {
        ports->counts[port].not_transmitted += count - sent;
        rte_pktmbuf_free_bulk(packets + sent, count - sent);
    }
}

void ports_swap_addresses(struct rte_mbuf *packet)
{
    struct rte_ether_hdr *header = rte_pktmbuf_mtod(packet, struct rte_ether_hdr *);
    struct rte_ether_addr source;

    rte_ether_addr_copy(&header->src_addr, &source);
    rte_ether_addr_copy(&header->dst_addr, &header->src_addr);
    rte_ether_addr_copy(&source, &header->dst_addr);
}
