#include "net.h"

#include <string.h>

#include <rte_arp.h>
#include <rte_icmp.h>

#define ICMP_ECHO_REPLY 0
#define ICMP_ECHO_REQUEST 8
#define TTL 64

static uint16_t big(uint16_t value)
{
    return rte_cpu_to_be_16(value);
}

/* Answers ARP requests for the station's address in place (RFC 826). */
static enum net_verdict receive_arp(const struct station *station, struct rte_mbuf *frame, struct net_counts *counts)
{
    struct rte_ether_hdr *ether = rte_pktmbuf_mtod(frame, struct rte_ether_hdr *);
    struct rte_arp_hdr *arp = (struct rte_arp_hdr *)(ether + 1);
    if (frame->data_len < sizeof *ether + sizeof *arp || arp->arp_hardware != big(RTE_ARP_HRD_ETHER) ||
        arp->arp_protocol != big(RTE_ETHER_TYPE_IPV4) || arp->arp_hlen != RTE_ETHER_ADDR_LEN || arp->arp_plen != 4) {
        counts->wrong++;
        return NET_DROP;
    }
    struct rte_arp_ipv4 *data = &arp->arp_data;
    if (arp->arp_opcode != big(RTE_ARP_OP_REQUEST) || data->arp_tip != rte_cpu_to_be_32(station->ip)) {
        counts->foreign++;
        return NET_DROP;
    }
    counts->arp++;
    arp->arp_opcode = big(RTE_ARP_OP_REPLY);
    data->arp_tha = data->arp_sha;
    data->arp_tip = data->arp_sip;
    data->arp_sha = station->mac;
    data->arp_sip = rte_cpu_to_be_32(station->ip);
    ether->dst_addr = data->arp_tha;
    ether->src_addr = station->mac;
    return NET_ANSWERED;
}

/* Whether the IPv4 header is valid and the packet complete. Bytes after the packet are padding. */
static bool ip_is_right(const struct rte_mbuf *frame, const struct rte_ipv4_hdr *ip)
{
    size_t in_frame = frame->data_len - sizeof(struct rte_ether_hdr);
    if (frame->nb_segs != 1 || in_frame < sizeof *ip || ip->version_ihl >> 4 != IPVERSION)
        return false;
    size_t header = rte_ipv4_hdr_len(ip), total = rte_be_to_cpu_16(ip->total_length);
    uint16_t fragment = rte_be_to_cpu_16(ip->fragment_offset);
    return header >= sizeof *ip && total >= header && total <= in_frame &&
           !(fragment & (RTE_IPV4_HDR_MF_FLAG | RTE_IPV4_HDR_OFFSET_MASK)) && rte_raw_cksum(ip, header) == 0xffff;
}

/* Answers echo requests in place (RFC 792): changes type and addresses, and updates the checksums. */
static enum net_verdict receive_echo(struct rte_ether_hdr *ether, struct rte_ipv4_hdr *ip, struct net_counts *counts)
{
    size_t header = rte_ipv4_hdr_len(ip), bytes = rte_be_to_cpu_16(ip->total_length) - header;
    struct rte_icmp_hdr *icmp = (struct rte_icmp_hdr *)((uint8_t *)ip + header);
    if (bytes < sizeof *icmp || rte_raw_cksum(icmp, bytes) != 0xffff) {
        counts->wrong++;
        return NET_DROP;
    }
    if (icmp->icmp_type != ICMP_ECHO_REQUEST) {
        counts->foreign++;
        return NET_DROP;
    }
    counts->echo++;
    icmp->icmp_type = ICMP_ECHO_REPLY;
    icmp->icmp_cksum = 0;
    icmp->icmp_cksum = (uint16_t)~rte_raw_cksum(icmp, bytes);
    rte_be32_t source = ip->src_addr;
    ip->src_addr = ip->dst_addr;
    ip->dst_addr = source;
    ip->time_to_live = TTL;
    ip->hdr_checksum = 0;
    ip->hdr_checksum = (uint16_t)~rte_raw_cksum(ip, header);
    struct rte_ether_addr station = ether->src_addr;
    ether->src_addr = ether->dst_addr;
    ether->dst_addr = station;
    return NET_ANSWERED;
}

static void head_answer(const struct rte_ether_hdr *ether, const struct rte_ipv4_hdr *ip, const struct rte_udp_hdr *udp,
                        struct net_headers *answer)
{
    *answer = (struct net_headers){
        .ether = {.dst_addr = ether->src_addr, .src_addr = ether->dst_addr, .ether_type = ether->ether_type},
        .ip =
            {
                .version_ihl = RTE_IPV4_VHL_DEF,
                .fragment_offset = big(RTE_IPV4_HDR_DF_FLAG),
                .time_to_live = TTL,
                .next_proto_id = IPPROTO_UDP,
                .src_addr = ip->dst_addr,
                .dst_addr = ip->src_addr,
            },
        .udp = {.src_port = udp->dst_port, .dst_port = udp->src_port},
    };
}

static enum net_verdict receive_udp(const struct station *station, const struct rte_ether_hdr *ether,
                                    const struct rte_ipv4_hdr *ip, struct net_counts *counts,
                                    struct net_request *request)
{
    size_t header = rte_ipv4_hdr_len(ip), in_packet = rte_be_to_cpu_16(ip->total_length) - header;
    const struct rte_udp_hdr *udp = (const struct rte_udp_hdr *)((const uint8_t *)ip + header);
    size_t bytes = in_packet < sizeof *udp ? 0 : rte_be_to_cpu_16(udp->dgram_len);
    if (bytes < sizeof *udp || bytes != in_packet ||
        (udp->dgram_cksum != 0 && rte_ipv4_udptcp_cksum_verify(ip, udp) != 0)) {
        counts->wrong++;
        return NET_DROP;
    }
    if (udp->dst_port != big(station->udp_port)) {
        counts->foreign++;
        return NET_DROP;
    }
    counts->requests++;
    request->payload = (const uint8_t *)(udp + 1);
    request->bytes = (uint16_t)(bytes - sizeof *udp);
    head_answer(ether, ip, udp, &request->answer);
    return NET_REQUEST;
}

enum net_verdict net_receive(const struct station *station, struct rte_mbuf *frame, struct net_counts *counts,
                             struct net_request *request)
{
    struct rte_ether_hdr *ether = rte_pktmbuf_mtod(frame, struct rte_ether_hdr *);
    if (frame->data_len < sizeof *ether) {
        counts->wrong++;
        return NET_DROP;
    }
    bool for_all = rte_is_broadcast_ether_addr(&ether->dst_addr);
    bool mine = rte_is_same_ether_addr(&ether->dst_addr, &station->mac);
    if ((mine || for_all) && ether->ether_type == big(RTE_ETHER_TYPE_ARP))
        return receive_arp(station, frame, counts);
    if (!mine || ether->ether_type != big(RTE_ETHER_TYPE_IPV4)) {
        counts->foreign++;
        return NET_DROP;
    }
    struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(ether + 1);
    if (!ip_is_right(frame, ip)) {
        counts->wrong++;
        return NET_DROP;
    }
    if (ip->dst_addr == rte_cpu_to_be_32(station->ip)) {
        if (ip->next_proto_id == IPPROTO_UDP)
            return receive_udp(station, ether, ip, counts, request);
        if (ip->next_proto_id == IPPROTO_ICMP)
            return receive_echo(ether, ip, counts);
    }
    counts->foreign++;
    return NET_DROP;
}

uint8_t *net_payload(struct rte_mbuf *frame, uint16_t bytes)
{
    if (frame->buf_len - frame->data_off < (int)sizeof(struct net_headers) + bytes)
        return NULL;
    return rte_pktmbuf_mtod_offset(frame, uint8_t *, sizeof(struct net_headers));
}

void net_answer(const struct net_request *request, struct rte_mbuf *frame, uint16_t bytes)
{
    struct net_headers *headers = rte_pktmbuf_mtod(frame, struct net_headers *);
    uint16_t udp_bytes = (uint16_t)(sizeof headers->udp + bytes);
    *headers = request->answer;
    headers->udp.dgram_len = big(udp_bytes);
    headers->ip.total_length = big((uint16_t)(sizeof headers->ip + udp_bytes));
    headers->ip.hdr_checksum = rte_ipv4_cksum(&headers->ip);
    headers->udp.dgram_cksum = rte_ipv4_udptcp_cksum(&headers->ip, &headers->udp);
    frame->data_len = (uint16_t)(sizeof *headers + bytes);
    frame->pkt_len = frame->data_len;
    frame->ol_flags = 0;
}
