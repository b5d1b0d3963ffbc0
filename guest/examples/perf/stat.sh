#!/bin/sh
# What a program costs, by the guest's own counters.
perf stat -e instructions,branches,branch-misses,L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses \
    busybox sha256sum /usr/bin/ip
topdown busybox sha256sum /usr/bin/ip
