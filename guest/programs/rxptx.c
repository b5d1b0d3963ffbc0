/* rxptx: receives a burst, works for a fixed time, and sends the burst back. The time is per burst, not
 * per packet: with light load and small bursts, the cost per packet is higher. */
#include "common/ports.h"

#include <rte_cycles.h>
#include <rte_pause.h>

#define WORK_NS_MAX 1000000000ull

int main(int argc, char **argv)
{
    static struct ports ports;
    struct rte_mbuf *packets[BURST_MAX];
    uint64_t work_ns = 10;
    const struct option_number own[] = {
        {"work-ns", "nanoseconds of work a burst, by DPDK's clock", &work_ns, 0, WORK_NS_MAX},
        {NULL, NULL, NULL, 0, 0},
    };
    uint64_t ticks;

    ports_start(&ports, "rxptx", argc, argv, own);
    /* Rounded up: with a clock that is too coarse the time is longer, but never zero. */
    ticks = (work_ns * rte_get_timer_hz() + NS_PER_S - 1) / NS_PER_S;
    ports_ready();
    while (ports_running(&ports)) {
        for (uint16_t port = 0; port < ports.count; port++) {
            uint16_t received = ports_receive(&ports, port, packets);
            uint64_t end;

            if (received == 0)
                continue;
            end = rte_get_timer_cycles() + ticks;
            while (rte_get_timer_cycles() < end)
                rte_pause();
            for (uint16_t i = 0; i < received; i++)
                ports_swap_addresses(packets[i]);
            ports_transmit(&ports, port, packets, received);
        }
    }
    return ports_stop(&ports);
}
