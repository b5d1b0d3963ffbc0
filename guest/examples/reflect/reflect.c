/* Returns every IPv4 frame that arrives at an interface through the same interface, with its MAC addresses
 * exchanged, by the kernel's packet sockets (packet(7)), until SIGTERM.
 *
 *     riscv64-linux-gnu-gcc -O2 -Wall -o reflect reflect.c */
#include <arpa/inet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* gem5's m5op "reset stats", by which Doorbell may start the measurement (--begin-at m5). Its arguments, a
 * delay and a period, are zero. Outside the simulator this is an illegal instruction. */
static void m5_reset_stats(void)
{
    register long delay asm("a0") = 0;
    register long period asm("a1") = 0;
    asm volatile(".word 0x7b | 0x40 << 25" : "+r"(delay), "+r"(period) : : "memory");
}

static void leave(int signal)
{
    (void)signal;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: reflect INTERFACE\n");
        return 2;
    }
    int wire = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_IP),
        .sll_ifindex = if_nametoindex(argv[1]),
    };
    if (wire < 0 || address.sll_ifindex == 0 || bind(wire, (struct sockaddr *)&address, sizeof address) < 0) {
        perror(argv[1]);
        return 1;
    }
    /* Without SA_RESTART the signal interrupts the recv() in which the program waits. */
    struct sigaction on_term = {.sa_handler = leave};
    sigaction(SIGTERM, &on_term, NULL);
    m5_reset_stats();

    unsigned char frame[2048];
    unsigned long reflected = 0;
    for (;;) {
        ssize_t length = recv(wire, frame, sizeof frame, 0);
        if (length < 2 * ETH_ALEN)
            break;
        unsigned char destination[ETH_ALEN];
        memcpy(destination, frame, ETH_ALEN);
        memcpy(frame, frame + ETH_ALEN, ETH_ALEN);
        memcpy(frame + ETH_ALEN, destination, ETH_ALEN);
        reflected += send(wire, frame, length, 0) == length;
    }
    printf("reflected %lu frames\n", reflected);
    return 0;
}
