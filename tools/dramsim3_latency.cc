// Runs a trace of `dram_curve` (see docs/dram.md) through DRAMsim3 and prints the mean read latency. Latency starts at the
// clock given in the trace, so it includes waiting for space in the controller's queues.
//
// Build it with your copy of DRAMsim3: g++ -O2 -I DRAMsim3/src dramsim3_latency.cc -L DRAMsim3 -ldramsim3
// Usage: dramsim3_latency CONFIG.ini TRACE

#include <cstdint>
#include <deque>
#include <fstream>
#include <iostream>
#include <string>
#include <unordered_map>

#include "dramsim3.h"

int main(int argc, char **argv) {
    if (argc != 3) {
        std::cerr << "usage: dramsim3_latency CONFIG.ini TRACE\n";
        return 2;
    }
    uint64_t clock = 0, reads = 0, waited = 0;
    std::unordered_map<uint64_t, std::deque<uint64_t>> wanted;
    auto read_done = [&](uint64_t address) {
        auto &since = wanted[address];
        waited += clock - since.front();
        since.pop_front();
        ++reads;
    };
    auto *memory = dramsim3::GetMemorySystem(argv[1], ".", read_done, [](uint64_t) {});
    struct Request {
        uint64_t address, clock;
    };
    std::deque<Request> queues[2];
    std::ifstream trace(argv[2]);
    std::string address, kind;
    uint64_t next = 0;
    bool more = bool(trace >> address >> kind >> next);
    uint64_t last = next;
    while (more || !queues[0].empty() || !queues[1].empty() || clock < last + 2000) {
        for (; more && next <= clock; more = bool(trace >> address >> kind >> next)) {
            queues[kind == "WRITE"].push_back({std::stoull(address, nullptr, 16), next});
            last = next;
        }
        for (bool write : {false, true}) {
            auto &queue = queues[write];
            while (!queue.empty() && memory->WillAcceptTransaction(queue.front().address, write)) {
                if (!write) wanted[queue.front().address].push_back(queue.front().clock);
                memory->AddTransaction(queue.front().address, write);
                queue.pop_front();
            }
        }
        memory->ClockTick();
        ++clock;
    }
    std::cout << reads << " reads, mean clocks " << double(waited) / double(reads) << ", clocks in all " << clock << "\n";
    return 0;
}
