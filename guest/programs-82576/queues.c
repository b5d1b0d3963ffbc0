#include "queues.h"

#include <inttypes.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_errno.h>

/* How long a link may take to come up. */
#define LINK_WAIT_MS 9000
#define LINK_STEP_US 100

static void check(const struct ports *ports, uint16_t port, int result, const char *what)
{
    if (result < 0)
        rte_exit(EXIT_FAILURE, "%s: port %u: cannot %s: %s\n", ports->program, port, what, rte_strerror(-result));
}

static void start_port(const struct ports *ports, uint16_t port, uint16_t queues)
{
    const struct footprint *f = &ports->footprint;
    struct rte_eth_conf config = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_RSS}};
    unsigned int socket = (unsigned int)SOCKET_ID_ANY;
    struct rte_eth_dev_info info;
    struct rte_eth_txconf tx;

    check(ports, port, rte_eth_dev_info_get(port, &info), "ask what it is");
    if (queues > info.max_rx_queues || queues > info.max_tx_queues)
        rte_exit(EXIT_FAILURE, "%s: port %u has %u queues to receive and %u to transmit, and %u are needed\n",
                 ports->program, port, info.max_rx_queues, info.max_tx_queues, queues);
    config.rx_adv_conf.rss_conf.rss_hf =
        (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP) & info.flow_type_rss_offloads;
    check(ports, port, rte_eth_dev_stop(port), "stop it");
    check(ports, port, rte_eth_dev_configure(port, queues, queues, &config), "configure its queues");
    tx = info.default_txconf;
    if (f->txrst)
        tx.tx_rs_thresh = (uint16_t)f->txrst;
    for (uint16_t queue = 0; queue < queues; queue++) {
        check(ports, port, rte_eth_rx_queue_setup(port, queue, (uint16_t)f->rxd, socket, NULL, ports->pool),
              "set up a receive ring");
        check(ports, port, rte_eth_tx_queue_setup(port, queue, (uint16_t)f->txd, socket, &tx),
              "set up a transmit ring");
    }
    check(ports, port, rte_eth_dev_start(port), "start it");
    check(ports, port, rte_eth_promiscuous_enable(port), "receive frames for all addresses");
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

void queues_start(struct ports *ports, uint16_t queues)
{
    for (uint16_t port = 0; port < ports->count; port++)
        start_port(ports, port, queues);
    for (uint16_t port = 0; port < ports->count; port++)
        wait_for_link(ports, port);
}
