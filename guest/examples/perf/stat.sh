#!/bin/sh
# Measures a program with the guest's performance counters.
perf stat -e instructions,branches,branch-misses,L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses \
    busybox sha256sum /usr/bin/ip
topdown busybox sha256sum /usr/bin/ip
