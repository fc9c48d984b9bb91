"""The other side of scapy.rs: builds and dissects RoCEv2 frames with scapy, one JSON object a line.

    scapy_peer.py build SEED COUNT   prints frames of random packets with the fields that they were built from
    scapy_peer.py parse              reads frames (hex, one a line), prints the fields that scapy finds

scapy knows BTH, AETH and CNP; the other extension headers are packed here with struct, from IBA volume 1, chapter 9.
"""

import json
import random
import struct
import sys

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

# opcode: (extension headers, has payload)
OPCODES = {
    0x00: ("", True), 0x01: ("", True), 0x02: ("", True), 0x03: ("i", True), 0x04: ("", True), 0x05: ("i", True),
    0x06: ("r", True), 0x07: ("", True), 0x08: ("", True), 0x09: ("i", True), 0x0A: ("r", True), 0x0B: ("ri", True),
    0x0C: ("r", False), 0x0D: ("a", True), 0x0E: ("", True), 0x0F: ("a", True), 0x10: ("a", True), 0x11: ("a", False),
    0x12: ("ao", False), 0x13: ("x", False), 0x14: ("x", False), 0x16: ("v", True), 0x17: ("v", True),
    0x81: ("n", False),
}
# name: (format, fields)
HEADERS = {
    "r": (">QII", ("virtual_address", "remote_key", "length")),
    "i": (">I", ("immediate",)),
    "v": (">I", ("remote_key",)),
    "o": (">Q", ("original",)),
    "x": (">QIQQ", ("virtual_address", "remote_key", "swap_add", "compare")),
    "n": (">QQ", ("high", "low")),
    "a": (">I", ("syndrome_msn",)),
}


def fields_of(packet):
    """The fields of a packet that scapy dissected."""
    ip = packet[IP] if IP in packet else packet[IPv6]
    four = IP in packet
    bth = packet[BTH]
    out = {
        "source": ip.src,
        "destination": ip.dst,
        "traffic_class": ip.tos if four else ip.tc,
        "hop_limit": ip.ttl if four else ip.hlim,
        "identification": ip.id if four else 0,
        "flow_label": 0 if four else ip.fl,
        "vlans": [tag_number(packet.getlayer(Dot1Q, nb)) for nb in (1, 2) if packet.getlayer(Dot1Q, nb)],
        "udp_source_port": packet[UDP].sport,
        "udp_checksum": packet[UDP].chksum,
        "icrc": bth.icrc,
    }
    for name in ("opcode", "solicited", "migreq", "padcount", "pkey", "fecn", "becn", "resv6", "dqpn", "ackreq",
                 "resv7", "psn"):
        out[name] = getattr(bth, name)
    body = bytes(bth.payload)
    names, _ = OPCODES[bth.opcode]
    out["extensions"] = []
    for name in names:
        layout, fields = HEADERS[name]
        values = struct.unpack_from(layout, body)
        body = body[struct.calcsize(layout):]
        values = dict(zip(fields, values))
        if name == "a":
            number = values.pop("syndrome_msn")
            values = {"syndrome": number >> 24, "msn": number & 0xFFFFFF}
            if bth.opcode == 0x11:
                assert (packet[AETH].syndrome, packet[AETH].msn) == (values["syndrome"], values["msn"])
        out["extensions"].append(values)
    out["payload"] = body[:len(body) - bth.padcount].hex()
    return out


def tag_number(tag):
    dei = tag.dei if hasattr(tag, "dei") else tag.id
    return tag.prio << 13 | dei << 12 | tag.vlan


def own_icrc(packet):
    """The ICRC that scapy computes for a packet, whatever it carries."""
    again = packet.copy()
    again[BTH].icrc = None
    return bytes(again)[-4:].hex()


def random_address(rng, four):
    if four:
        return ".".join(str(rng.randrange(256)) for _ in range(4))
    return ":".join("%x" % rng.randrange(1, 65536) for _ in range(8))


def random_frame(rng):
    opcode = rng.choice(sorted(OPCODES))
    names, has_payload = OPCODES[opcode]
    body = b"".join(rng.randbytes(struct.calcsize(HEADERS[name][0])) for name in names)
    payload = rng.randbytes(rng.choice([0, 1, 2, 3, 4, 5, 63, 64, 255, rng.randrange(1025)])) if has_payload else b""
    pad = -len(payload) % 4
    four = rng.random() < 0.5
    tos, ttl = rng.randrange(256), rng.randrange(1, 256)
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    for _ in range(rng.choice([0, 0, 1, 2])):
        packet /= Dot1Q(prio=rng.randrange(8), vlan=rng.randrange(4096))
    source, destination = random_address(rng, four), random_address(rng, four)
    if four:
        packet /= IP(src=source, dst=destination, tos=tos, ttl=ttl, id=rng.randrange(65536),
                     flags=rng.choice([0, "DF"]))
    else:
        packet /= IPv6(src=source, dst=destination, tc=tos, hlim=ttl, fl=rng.randrange(1 << 20))
    packet /= UDP(sport=rng.randrange(65536), dport=4791, chksum=rng.choice([0, rng.randrange(65536)]))
    packet /= BTH(opcode=opcode, solicited=rng.randrange(2), migreq=rng.randrange(2), padcount=pad,
                  pkey=rng.randrange(65536), fecn=rng.randrange(2), becn=rng.randrange(2), resv6=rng.randrange(64),
                  dqpn=rng.randrange(1 << 24), ackreq=rng.randrange(2), resv7=rng.randrange(128),
                  psn=rng.randrange(1 << 24))
    return bytes(packet / Raw(body + payload + bytes(pad)))


def main():
    if sys.argv[1] == "build":
        rng = random.Random(int(sys.argv[2]))
        frames = [random_frame(rng) for _ in range(int(sys.argv[3]))]
    else:
        frames = [bytes.fromhex(line) for line in sys.stdin]
    for frame in frames:
        packet = Ether(frame)
        fields = fields_of(packet)
        fields["frame"] = frame.hex()
        fields["scapy_icrc"] = own_icrc(packet)
        print(json.dumps(fields))


main()
