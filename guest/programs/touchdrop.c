/* touchdrop: reads every byte of each packet and drops it: a sink, such as a program that inspects or
 * stores traffic. */
#include "common/ports.h"
#include "touch.h"

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    static struct ports ports;
    struct rte_mbuf *packets[BURST_MAX];
    uint64_t sum = 0, load_bytes = 1, prefetch = 1;
    const struct option_number own[] = {
        TOUCH_OPTION(&load_bytes),
        TOUCH_PREFETCH_OPTION(&prefetch),
        {NULL, NULL, NULL, 0, 0},
    };

    ports_start(&ports, "touchdrop", argc, argv, own);
    ports_ready();
    while (ports_running(&ports)) {
        for (uint16_t port = 0; port < ports.count; port++) {
            uint16_t received = ports_receive(&ports, port, packets);

            for (uint16_t i = 0; i < received; i++) {
                if (prefetch && i + 1 < received)
                    touch_prefetch(packets[i + 1]);
                sum += touch(packets[i], load_bytes);
            }
            rte_pktmbuf_free_bulk(packets, received);
        }
    }
    /* Printed so that the compiler cannot remove the reads. */
    printf("sum of what was read: %" PRIx64 "\n", sum);
    return ports_stop(&ports);
}
