/* The network stack of a responding station: Ethernet, ARP, IPv4, ICMP echo and UDP, frame by frame and in
 * place.
 *
 * A frame is answered if it is addressed to this port's station or broadcast, and if every header is
 * valid: lengths, checksums, no fragment, no VLAN tag. UDP and IP checksums are computed here instead of
 * in the NIC, so that the program behaves the same on all DPDK ports. */
#ifndef NET_H
#define NET_H

#include <stdint.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

/* A port's addresses. Numbers are in host byte order. */
struct station {
    struct rte_ether_addr mac;
    uint32_t ip;
    uint16_t udp_port;
};

/* Frames by type. */
struct net_counts {
    uint64_t requests; /* datagrams for the station's port */
    uint64_t arp, echo;
    uint64_t foreign; /* for another station, or of another protocol */
    uint64_t wrong;   /* truncated, fragments, wrong lengths or checksums */
};

enum net_verdict {
    NET_DROP,
    NET_ANSWERED, /* the frame was turned into its answer */
    NET_REQUEST,  /* a datagram for the station's port */
};

/* The headers before a datagram's payload. */
struct net_headers {
    struct rte_ether_hdr ether;
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
} __attribute__((packed, aligned(2)));

/* A request's payload, and the headers of its answer without lengths and checksums. */
struct net_request {
    const uint8_t *payload;
    uint16_t bytes;
    struct net_headers answer;
};

/* Processes a frame. Fills in `request` for NET_REQUEST; its payload is in the frame. */
enum net_verdict net_receive(const struct station *station, struct rte_mbuf *frame, struct net_counts *counts,
                             struct net_request *request);

/* Position of an answer's payload in an empty or answered frame; null if there is no room for `bytes` of
 * it. */
uint8_t *net_payload(struct rte_mbuf *frame, uint16_t bytes);

/* Adds the headers to a frame with its payload in place, which makes it an answer to the request. */
void net_answer(const struct net_request *request, struct rte_mbuf *frame, uint16_t bytes);

#endif
