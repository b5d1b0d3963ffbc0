"""Sends a capture's frames over a veth pair to a program that returns them with swapped MAC addresses.

usage: over_veth.py CAPTURE PROGRAM ARGUMENT...   (run it in a separate network namespace)
"""

import signal
import socket
import struct
import subprocess
import sys


def frames(path):
    with open(path, "rb") as file:
        file.seek(24)
        while head := file.read(16):
            yield file.read(struct.unpack("<8xI4x", head)[0])


def ip(*words):
    subprocess.run(["ip", "link", *words], check=True)


def main(capture, program):
    # Disable IPv6, so that the kernel sends no frames itself.
    with open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as file:
        file.write("1")
    ip("add", "far", "type", "veth", "peer", "name", "near")
    for name in ("far", "near"):
        ip("set", name, "arp", "off", "up")
    far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    far.bind(("far", 0))
    far.settimeout(20)
    # Promiscuous mode: receive frames for any destination.
    membership = struct.pack("IHH8s", socket.if_nametoindex("far"), 1, 0, b"")
    far.setsockopt(263, 1, membership)  # SOL_PACKET, PACKET_ADD_MEMBERSHIP
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            if line == "doorbell: ready\n":
                break
        count = 0
        for frame in frames(capture):
            far.send(frame)
            back = far.recv(2048)
            assert back == frame[6:12] + frame[:6] + frame[12:], (frame, back)
            count += 1
        running.send_signal(signal.SIGTERM)
        print(running.stdout.read())
    assert running.returncode == 0, running.returncode
    print(f"{count} frames returned correctly")


main(sys.argv[1], sys.argv[2:])
