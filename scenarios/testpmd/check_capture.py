#!/usr/bin/python3
"""Checks a capture of the wire with scapy's reader: every sent frame returned, with the expected bytes.

check_capture.py CAPTURE macswap|io FRAMES_AT_LEAST FRAME_SIZE RATE_HZ

The script uses neither Doorbell's code nor its frame numbers: a frame is identified by all its bytes. The first
occurrence is the sent frame, from which the expected returned frame is computed. In io mode these are equal. All frames
must therefore differ from each other, which is checked too.
"""

import sys
from collections import Counter

from scapy.all import Ether, IP, UDP, raw
from scapy.utils import RawPcapReader

MAC_NIC = bytes.fromhex("525400123456")
MAC_GENERATOR = bytes.fromhex("020000000001")
# Interval of frames that scapy dissects and rebuilds, including checksums.
DISSECT_EVERY = 997


def expected(frame, mode):
    """The frame that the guest returns."""
    return frame if mode == "io" else frame[6:12] + frame[:6] + frame[12:]


def rebuilt(frame):
    """The frame with lengths and checksums as computed by scapy."""
    packet = Ether(frame)
    for layer, fields in ((IP, ("len", "chksum")), (UDP, ("len", "chksum"))):
        for field in fields:
            delattr(packet[layer], field)
    return raw(packet)


def check(path, mode, frames_least, frame_size, rate_hz):
    """Returns a counter of error messages, and the numbers of sent and returned frames."""
    waiting, wrong = {}, Counter()
    sent = returned = out_of_order = 0
    last_time = last_sent = last_index = None
    reader = RawPcapReader(path)
    if not reader.nano:
        wrong["the capture's times are not in nanoseconds"] += 1
    for frame, meta in reader:
        time_ns = meta.sec * 1_000_000_000 + meta.usec
        if last_time is not None and time_ns < last_time:
            wrong["a frame is older than the one before it in the capture"] += 1
        last_time = time_ns
        if meta.caplen != meta.wirelen or len(frame) != frame_size - 4:
            wrong[f"a frame has {len(frame)} bytes of {meta.wirelen}"] += 1
        index = waiting.pop(frame, None)
        if index is not None:
            returned += 1
            out_of_order += last_index is not None and index < last_index
            last_index = index
            continue
        if frame[:6] != MAC_NIC or frame[6:12] != MAC_GENERATOR:
            wrong["a frame is neither one sent nor one expected back"] += 1
            continue
        back = expected(frame, mode)
        if back in waiting:
            wrong["two frames are equal"] += 1
        waiting[back] = sent
        if last_sent is not None and abs((time_ns - last_sent) * rate_hz - 1e9) > 1.5 * rate_hz:
            wrong["a frame was not sent at the time given by the rate"] += 1
        last_sent = time_ns
        if sent % DISSECT_EVERY == 0 and rebuilt(frame) != frame:
            wrong["a frame's lengths or checksums differ from scapy's"] += 1
        sent += 1
    if waiting:
        wrong["a frame did not come back"] += len(waiting)
    if out_of_order:
        wrong["a frame came back after a later one"] += out_of_order
    if sent < frames_least:
        wrong[f"only {sent} frames were sent"] += 1
    return wrong, sent, returned


def main():
    """Prints the numbers of frames, and errors on standard error."""
    path, mode, frames_least, frame_size, rate_hz = sys.argv[1:]
    if mode not in ("macswap", "io"):
        sys.exit(f"unknown mode {mode}: use macswap or io")
    wrong, sent, returned = check(path, mode, int(frames_least), int(frame_size), float(rate_hz))
    for message, times in wrong.items():
        print(f"{message} ({times} times)", file=sys.stderr)
    print(f"sent {sent} returned {returned}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
