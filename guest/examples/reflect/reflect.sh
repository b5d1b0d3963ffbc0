#!/bin/sh
# Reflects for 30 ms of simulated time, and says what the kernel counted.
reflect eth0 &
busybox usleep 30000
kill $!
wait $!
ip -json -stats link show eth0 |
    jq --compact-output --monochrome-output '.[0].stats64 | {received: .rx.packets, sent: .tx.packets}'
