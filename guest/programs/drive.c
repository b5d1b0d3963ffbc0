/* drive: loads another node with UDP frames of one size at a constant rate, and measures the returned
 * frames. The parameters of a measurement are a line of numbers on the console, so that one running
 * program can serve several measurements; the result is a JSON object. Times are ticks of DPDK's clock.
 * Frames are due at even intervals, even if earlier frames could not be sent yet; a round trip begins when
 * its frame was due. */
#include "common/ports.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

/* Small: a long burst would delay the returning frames. */
#define BURST 32
#define MARK 0xd00b
#define FRAME_MIN 60 /* without the FCS, like all sizes here */

/* Latency histogram: below 2^SUB_BITS ticks one bin per tick, above 2^SUB_BITS bins per octave: accurate
 * to 0.2 %. */
#define SUB_BITS 9
#define SUBS (1u << SUB_BITS)
#define OCTAVES 32

struct load {
    uint64_t size;    /* bytes of each frame without FCS */
    uint64_t rate;    /* frames per second */
    uint64_t begin;   /* due time of the first frame */
    uint64_t measure; /* start of the measurement */
    uint64_t end;     /* end of the measurement and of the traffic */
    uint64_t give_up; /* frames that are not back by then are lost */
    uint64_t station; /* the other node's address, as a number */
    uint64_t source_ip, destination_ip, source_port, destination_port;
};

/* Head of every frame: 60 bytes, so that it fits the shortest frame. */
struct head {
    struct rte_ether_hdr ethernet;
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
    uint16_t mark;
    uint64_t sequence;
    uint64_t due;
} __attribute__((packed));

_Static_assert(sizeof(struct head) == FRAME_MIN, "the head fits the shortest frame");

struct result {
    uint64_t sent;         /* since the start */
    uint64_t first, after; /* the numbers of the measured frames */
    uint64_t behind;       /* due but not sent at the end */
    uint64_t returned;     /* measured frames that came back */
    uint64_t reordered;    /* returned frames that came after a frame sent later */
    uint64_t altered;      /* returned frames with another length */
    uint64_t back;         /* frames sent at any time that came back */
    uint64_t arrived;      /* frames that came back during the measurement */
    uint64_t newest;       /* highest number that came back */
    uint64_t min, max;
    double sum, squares;
    uint64_t histogram[OCTAVES + 1][SUBS];
};

static struct ports ports;
static struct result result;

static uint64_t hz;

static void read_load(struct load *load)
{
    uint64_t *const fields[] = {&load->size,
                                &load->rate,
                                &load->begin,
                                &load->measure,
                                &load->end,
                                &load->give_up,
                                &load->station,
                                &load->source_ip,
                                &load->destination_ip,
                                &load->source_port,
                                &load->destination_port};

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (scanf("%" SCNu64, fields[i]) != 1)
            rte_exit(EXIT_FAILURE, "drive: number %zu of the load is missing\n", i + 1);
    if (load->size < FRAME_MIN || load->size > RTE_MBUF_DEFAULT_DATAROOM || load->rate == 0)
        rte_exit(EXIT_FAILURE, "drive: frames of %d to %d bytes, at 1 a second at least\n", FRAME_MIN,
                 RTE_MBUF_DEFAULT_DATAROOM);
    if (load->measure < load->begin || load->end <= load->measure || load->give_up < load->end)
        rte_exit(EXIT_FAILURE, "drive: the load's times are not in order\n");
}

/* The head of a load's frames, without number and time. */
static struct head head_of(const struct load *load)
{
    struct head head = {0};
    uint16_t packet = (uint16_t)(load->size - sizeof(head.ethernet));

    rte_eth_macaddr_get(0, &head.ethernet.src_addr);
    for (int i = 0; i < RTE_ETHER_ADDR_LEN; i++)
        head.ethernet.dst_addr.addr_bytes[i] = (uint8_t)(load->station >> (8 * (RTE_ETHER_ADDR_LEN - 1 - i)));
    head.ethernet.ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
    head.ip.version_ihl = RTE_IPV4_VHL_DEF;
    head.ip.total_length = rte_cpu_to_be_16(packet);
    head.ip.time_to_live = 64;
    head.ip.next_proto_id = 17;
    head.ip.src_addr = rte_cpu_to_be_32((uint32_t)load->source_ip);
    head.ip.dst_addr = rte_cpu_to_be_32((uint32_t)load->destination_ip);
    head.ip.hdr_checksum = rte_ipv4_cksum(&head.ip);
    head.udp.src_port = rte_cpu_to_be_16((uint16_t)load->source_port);
    head.udp.dst_port = rte_cpu_to_be_16((uint16_t)load->destination_port);
    head.udp.dgram_len = rte_cpu_to_be_16((uint16_t)(packet - sizeof(head.ip)));
    head.mark = MARK;
    return head;
}

/* Due time of a frame. The product of its number and the clock's rate does not overflow: a load lasts
 * minutes at most. */
static uint64_t due_at(const struct load *load, uint64_t sequence)
{
    return load->begin + sequence / load->rate * hz + sequence % load->rate * hz / load->rate;
}

/* Sends the frames due by `now`, at most a burst. Frames that do not fit into the ring are built again
 * later, so none wait outside the ring. */
static void send_due(const struct load *load, struct head *head, uint64_t now)
{
    struct rte_mbuf *packets[BURST];
    uint64_t passed = now - load->begin;
    uint64_t due = passed / hz * load->rate + passed % hz * load->rate / hz + 1;
    uint16_t count = due - result.sent < BURST ? (uint16_t)(due - result.sent) : BURST;

    if (count == 0 || rte_pktmbuf_alloc_bulk(ports.pool, packets, count))
        return;
    for (uint16_t i = 0; i < count; i++) {
        head->sequence = result.sent + i;
        head->due = due_at(load, head->sequence);
        memcpy(rte_pktmbuf_mtod(packets[i], void *), head, sizeof(*head));
        packets[i]->data_len = (uint16_t)load->size;
        packets[i]->pkt_len = (uint32_t)load->size;
    }
    uint16_t sent = rte_eth_tx_burst(0, 0, packets, count);

    result.sent += sent;
    if (sent < count)
        rte_pktmbuf_free_bulk(packets + sent, count - sent);
}

static void count_latency(uint64_t ticks)
{
    unsigned int octave = 0;

    result.min = ticks < result.min ? ticks : result.min;
    result.max = ticks > result.max ? ticks : result.max;
    result.sum += (double)ticks;
    result.squares += (double)ticks * (double)ticks;
    while (octave < OCTAVES - 1 && ticks >> octave >= 2 * SUBS)
        octave++;
    /* Octave 0 of the histogram has the latencies below SUBS; in the other octaves the highest bit is
     * implied. */
    uint64_t sub = ticks >> octave;
    result.histogram[sub < SUBS ? 0 : octave + 1][sub % SUBS]++;
}

/* Receives returned frames. */
static void take_returned(const struct load *load, uint64_t now)
{
    struct rte_mbuf *packets[BURST_MAX];
    uint16_t received = ports_receive(&ports, 0, packets);

    for (uint16_t i = 0; i < received; i++) {
        const struct head *head = rte_pktmbuf_mtod(packets[i], const struct head *);

        if (packets[i]->data_len < sizeof(*head) || head->mark != MARK || head->sequence >= result.sent)
            continue;
        result.back++;
        result.arrived += now >= load->measure && now < load->end;
        if (head->sequence < result.first || head->sequence >= result.after)
            continue;
        result.returned++;
        result.altered += packets[i]->pkt_len != load->size;
        result.reordered += head->sequence < result.newest;
        result.newest = head->sequence > result.newest ? head->sequence : result.newest;
        count_latency(now - head->due);
    }
    if (received)
        rte_pktmbuf_free_bulk(packets, received);
}

static void drive(const struct load *load)
{
    struct head head = head_of(load);
    uint64_t now = rte_get_timer_cycles();

    memset(&result, 0, sizeof(result));
    result.min = UINT64_MAX;
    result.first = result.after = UINT64_MAX;
    while (now < load->give_up && !ports_interrupted) {
        if (result.first == UINT64_MAX && now >= load->measure)
            result.first = result.sent;
        if (now >= load->begin && now < load->end)
            send_due(load, &head, now);
        else if (now >= load->end && result.after == UINT64_MAX) {
            uint64_t length = load->end - load->begin;
            uint64_t due = length / hz * load->rate + length % hz * load->rate / hz;

            result.after = result.sent;
            result.behind = due > result.sent ? due - result.sent : 0;
        }
        take_returned(load, rte_get_timer_cycles());
        now = rte_get_timer_cycles();
        if (result.after != UINT64_MAX && result.back >= result.sent)
            break;
    }
}

/* The latency percentile `share` in ticks: the upper end of its bin, at most the largest latency. */
static double percentile(double share)
{
    uint64_t rank = (uint64_t)ceil(share * (double)result.returned), seen = 0;

    for (unsigned int octave = 0; octave <= OCTAVES; octave++)
        for (unsigned int sub = 0; sub < SUBS; sub++) {
            seen += result.histogram[octave][sub];
            if (seen >= rank) {
                uint64_t low = octave ? (uint64_t)(SUBS + sub) << (octave - 1) : sub;
                uint64_t high = octave ? low + (1ull << (octave - 1)) - 1 : low;
                return (double)(high < result.max ? high : result.max);
            }
        }
    return (double)result.max;
}

static void print_result(void)
{
    static const struct {
        const char *name;
        double share;
    } percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}, {"p99_99", 0.9999}};
    double ns = 1e9 / (double)hz, n = (double)result.returned;

    printf("drive: {\"offered\":%" PRIu64 ",\"behind\":%" PRIu64 ",\"returned\":%" PRIu64 ",\"arrived\":%" PRIu64
           ",\"reordered\":%" PRIu64 ",\"altered\":%" PRIu64,
           result.after - result.first, result.behind, result.returned, result.arrived, result.reordered,
           result.altered);
    if (result.returned) {
        double mean = result.sum / n, variance = result.squares / n - mean * mean;

        printf(",\"latency_ns\":{\"mean\":%.3f,\"stddev\":%.3f,\"min\":%.3f,\"max\":%.3f", mean * ns,
               variance > 0 ? sqrt(variance) * ns : 0.0, (double)result.min * ns, (double)result.max * ns);
        for (size_t i = 0; i < sizeof(percentiles) / sizeof(*percentiles); i++)
            printf(",\"%s\":%.3f", percentiles[i].name, percentile(percentiles[i].share) * ns);
        printf("}");
    }
    printf("}\ndrive: done\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct load load;

    ports_start(&ports, "drive", argc, argv, NULL);
    hz = rte_get_timer_hz();
    printf("drive: waiting\n");
    fflush(stdout);
    read_load(&load);
    drive(&load);
    print_result();
    return ports_stop(&ports);
}
