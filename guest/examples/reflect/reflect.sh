#!/bin/sh
# Reflects frames for 30 ms of simulated time, then prints the kernel's counters.
reflect eth0 &
busybox usleep 30000
kill $!
wait $!
ip -json -stats link show eth0 |
    jq --compact-output --monochrome-output '.[0].stats64 | {received: .rx.packets, sent: .tx.packets}'
