"""Request frames for memcached-dpdk and the expected responses, both built with scapy.

    frames.py make REQUESTS.pcap      writes the requests and prints their number
    frames.py check ANSWERS.pcap      compares the responses byte by byte and prints their number
"""
import sys

from scapy.all import ARP, ICMP, IP, UDP, Dot1Q, Ether, IPOption_NOP, Raw, rdpcap, wrpcap

SERVER, CLIENT = "02:70:63:61:70:00", "02:00:00:00:00:07"  # DPDK gives the first address to its first pcap port
HERE, THERE = "10.0.0.2", "10.0.0.1"

cases = []


def case(request, *answers):
    cases.append((bytes(request), [bytes(answer) for answer in answers]))


def ip(**other):
    return Ether(src=CLIENT, dst=SERVER) / IP(src=THERE, dst=HERE, **other)


def udp(text, identity=7, datagrams=1, **other):
    header = identity.to_bytes(2, "big") + b"\0\0" + datagrams.to_bytes(2, "big") + b"\0\0"
    return UDP(sport=4000, dport=11211, **other) / Raw(header + text)


def response(text, sequence=0, total=1, identity=7):
    header = b"".join(number.to_bytes(2, "big") for number in (identity, sequence, total, 0))
    back = IP(src=HERE, dst=THERE, ttl=64, id=0, flags="DF")
    return Ether(src=SERVER, dst=CLIENT) / back / UDP(sport=11211, dport=4000) / Raw(header + text)


def request(text, *answers, **other):
    case(ip() / udp(text, **other), *(response(answer, **other) for answer in answers))


who_has = dict(op="who-has", hwsrc=CLIENT, psrc=THERE)
case(Ether(src=CLIENT, dst="ff:ff:ff:ff:ff:ff") / ARP(pdst=HERE, **who_has),
     Ether(src=SERVER, dst=CLIENT) / ARP(op="is-at", hwsrc=SERVER, psrc=HERE, hwdst=CLIENT, pdst=THERE))
case(Ether(src=CLIENT, dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="10.0.0.3", **who_has))
case(Ether(src=CLIENT, dst="ff:ff:ff:ff:ff:ff") / Raw(bytes(ARP(pdst=HERE, **who_has))[:20]))
ping = ICMP(type=8, id=3, seq=9) / Raw(b"knock" * 30)
pong = ICMP(type=0, id=3, seq=9) / Raw(b"knock" * 30)
case(ip(id=5, ttl=3) / ping, Ether(src=SERVER, dst=CLIENT) / IP(src=HERE, dst=THERE, id=5, ttl=64) / pong)
case(ip() / ICMP(type=8, chksum=1) / Raw(b"knock"))
case(ip() / ICMP(type=13))

request(b"set a 5 0 3\r\nabc\r\n", b"STORED\r\n")
request(b"get a\r\n", b"VALUE a 5 3\r\nabc\r\nEND\r\n", identity=65535)
request(b"get a a\r\nget nobody\r\n", b"VALUE a 5 3\r\nabc\r\n", b"VALUE a 5 3\r\nabc\r\nEND\r\n", b"END\r\n")
request(b"delete nobody noreply\r\n")
request(b"nonsense\r\n", b"ERROR\r\n")
request(b"set b 0 0 1300\r\n" + 1300 * b"b" + b"\r\n", b"STORED\r\n")
request(b"append b 0 0 1300\r\n" + 1300 * b"c" + b"\r\n", b"STORED\r\n")
whole = b"VALUE b 0 2600\r\n" + 1300 * b"b" + 1300 * b"c" + b"\r\nEND\r\n"
case(ip() / udp(b"get b\r\n"), response(whole[:1392], 0, 2), response(whole[1392:], 1, 2))

get, got = b"get a\r\n", response(b"VALUE a 5 3\r\nabc\r\nEND\r\n")
case(ip() / udp(get, chksum=0), got)
case(ip(options=[IPOption_NOP()] * 8) / udp(get), got)
case(bytes(ip() / udp(get)) + 20 * b"\0", got)  # padded
case(ip() / udp(get, chksum=0x1234))
case(ip() / udp(get, datagrams=2))
case(ip() / udp(get, len=200))
case(ip() / udp(get, len=7))
case(ip() / UDP(sport=4000, dport=11211))
case(ip() / UDP(sport=4000, dport=11212) / Raw(b"\0\0\0\0\0\1\0\0" + get))
case(ip(chksum=1) / udp(get))
case(ip(flags="MF") / udp(get))
case(ip(frag=2) / udp(get))
case(ip(len=900) / udp(get))
case(ip(len=10) / udp(get))
case(ip(ihl=4) / udp(get))
case(ip(ihl=15) / udp(get))
case(ip(version=6) / udp(get))
case(bytes(ip() / udp(get))[:30])
case(bytes(ip() / udp(get))[:15])
case(Ether(src=CLIENT, dst="02:00:00:00:00:99") / IP(src=THERE, dst=HERE) / udp(get))
case(Ether(src=CLIENT, dst=SERVER) / IP(src=THERE, dst="10.0.0.9") / udp(get))
case(Ether(src=CLIENT, dst=SERVER) / Dot1Q(vlan=3) / IP(src=THERE, dst=HERE) / udp(get))
request(get, b"VALUE a 5 3\r\nabc\r\nEND\r\n")

if sys.argv[1] == "make":
    wrpcap(sys.argv[2], [Ether(request) for request, _ in cases], linktype=1)
    print(len(cases))
else:
    expected = [answer for _, answers in cases for answer in answers]
    captured = [bytes(frame) for frame in rdpcap(sys.argv[2])]
    for number, (wanted, answer) in enumerate(zip(expected, captured)):
        if wanted != answer:
            sys.exit(f"response {number} is\n{Ether(answer)!r}\nexpected\n{Ether(wanted)!r}")
    if len(expected) != len(captured):
        sys.exit(f"{len(captured)} responses, expected {len(expected)}")
    print(len(expected))
