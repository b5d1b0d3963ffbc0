/* Several queues on each port, over which RSS spreads flows. */
#ifndef DOORBELL_QUEUES_H
#define DOORBELL_QUEUES_H

#include "common/ports.h"

/* Queues each way of a port of the 82576, and so cores at most. */
#define CORES_MAX 16

/* Starts all ports anew, which have one queue each way, with so many, and waits for their links. Ends the program with a
 * message if a port has fewer. */
void queues_start(struct ports *ports, uint16_t queues);

#endif
