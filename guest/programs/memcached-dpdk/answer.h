/* memcached-dpdk's processing of a frame, on one core (main.c) or on each of several (memcached-shards.c
 * of the image dpdk). The including program defines TRANSMIT, which sends a burst, with the
 * arguments of `ports_transmit`. */
#ifndef ANSWER_H
#define ANSWER_H

#include "../common/ports.h"
#include "net.h"
#include "protocol.h"

#include <string.h>

#define REQUEST_MAX 65536

struct server {
    struct ports ports;
    struct station stations[PORTS_MAX];
    struct net_counts net;
    struct store store;
    struct protocol protocol;
    /* The current request, its text, and the buffer reserved for its answer, until it is used. */
    struct net_request request;
    uint8_t text[REQUEST_MAX];
    struct rte_mbuf *spare;
    struct rte_mbuf *answer;
    uint16_t port;
    /* Frames to be transmitted on `port`. */
    struct rte_mbuf *out[BURST_MAX];
    uint16_t out_count;
};

static void transmit(struct server *server)
{
    TRANSMIT(&server->ports, server->port, server->out, server->out_count);
    server->out_count = 0;
}

static void queue(struct server *server, struct rte_mbuf *frame)
{
    server->out[server->out_count++] = frame;
    if (server->out_count == BURST_MAX)
        transmit(server);
}

static uint8_t *room(void *user)
{
    struct server *server = user;
    server->answer = server->spare != NULL ? server->spare : rte_pktmbuf_alloc(server->ports.pool);
    server->spare = NULL;
    return server->answer != NULL ? net_payload(server->answer, PROTOCOL_DATAGRAM_MAX) : NULL;
}

static void send_datagram(void *user, size_t bytes)
{
    struct server *server = user;
    net_answer(&server->request, server->answer, (uint16_t)bytes);
    queue(server, server->answer);
}

static void answer(struct server *server, struct rte_mbuf *frame)
{
    const struct outbox outbox = {room, send_datagram, server};
    const struct net_request *request = &server->request;
    memcpy(server->text, request->payload, request->bytes);
    server->spare = frame;
    protocol_answer(&server->protocol, server->text, request->bytes, &outbox);
    rte_pktmbuf_free(server->spare);
}

static void take(struct server *server, struct rte_mbuf *frame)
{
    switch (net_receive(&server->stations[server->port], frame, &server->net, &server->request)) {
    case NET_DROP:
        return rte_pktmbuf_free(frame);
    case NET_ANSWERED:
        return queue(server, frame);
    case NET_REQUEST:
        return answer(server, frame);
    }
}

#endif
