#!/bin/sh
echo "hello from $(uname -m), Linux $(uname -r)"
m5 resetstats
wc -l /root/reflect.c
m5 dumpstats
