#!/usr/bin/env python3
"""Writes router.pcap and router-port1.pcap: what two hosts send to the example router.

Host 10.0.1.2 (port 0, router.pcap) asks for the router's MAC address, pings 10.0.2.2 five times and sends it 24 kB over
TCP; router-port1.pcap is what 10.0.2.2 sends back, at port 1. Replayed together through router.p4 with router.entries,
everything that host 0 sends for host 1 leaves at port 1 and the other way round.
"""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = [  # MAC address, IPv4 address, the router's MAC and IPv4 address on that side
    (bytes.fromhex('020000000102'), bytes([10, 0, 1, 2]), bytes.fromhex('020000000101'), bytes([10, 0, 1, 1])),
    (bytes.fromhex('020000000202'), bytes([10, 0, 2, 2]), bytes.fromhex('020000000201'), bytes([10, 0, 2, 1])),
]
FIN, SYN, PSH, ACK = 1, 2, 8, 16


def checksum(data):
    data += b'\0' * (len(data) % 2)
    total = sum(struct.unpack('>%dH' % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Capture:
    def __init__(self, name):
        self.file = open(os.path.join(HERE, name), 'wb')
        self.file.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))

    def frame(self, at_us, data):
        data += b'\0' * (60 - len(data))
        seconds, micros = divmod(at_us, 1_000_000)
        self.file.write(struct.pack('<IIII', 1_700_000_000 + seconds, micros, len(data), len(data)) + data)


def ipv4(sender, identification, protocol, payload):
    src, dst = HOSTS[sender][1], HOSTS[1 - sender][1]
    header = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(payload), identification, 0x4000, 64, protocol, 0, src, dst)
    header = header[:10] + struct.pack('>H', checksum(header)) + header[12:]
    return HOSTS[sender][2] + HOSTS[sender][0] + b'\x08\x00' + header + payload


def echo(sender, kind, sequence):
    data = bytes(range(56))
    header = struct.pack('>BBHHH', kind, 0, 0, 0x1234, sequence)
    header = header[:2] + struct.pack('>H', checksum(header + data)) + header[4:]
    return ipv4(sender, sequence, 1, header + data)


def tcp(sender, identification, flags, sequence, acknowledgement, data=b'', options=b''):
    ports = (40000, 5001) if sender == 0 else (5001, 40000)
    offset = (5 + len(options) // 4) << 4
    header = struct.pack('>HHIIBBHHH', *ports, sequence, acknowledgement, offset, flags, 0xfaf0, 0, 0) + options
    pseudo = HOSTS[sender][1] + HOSTS[1 - sender][1] + struct.pack('>BBH', 0, 6, len(header) + len(data))
    header = header[:16] + struct.pack('>H', checksum(pseudo + header + data)) + header[18:]
    return ipv4(sender, identification, 6, header + data)


def arp_request(sender):
    mac, ip, _, router = HOSTS[sender]
    fixed = struct.pack('>HHBBH', 1, 0x0800, 6, 4, 1)
    return b'\xff' * 6 + mac + b'\x08\x06' + fixed + mac + ip + bytes(6) + router


def main():
    ports = [Capture('router.pcap'), Capture('router-port1.pcap')]
    now = 0

    def send(sender, frame):
        nonlocal now
        now += 150
        ports[sender].frame(now, frame)

    for host in (0, 1):
        send(host, arp_request(host))
    for sequence in range(1, 6):
        send(0, echo(0, 8, sequence))
        send(1, echo(1, 0, sequence))
        now += 200_000
    mss = bytes.fromhex('020405b4')
    send(0, tcp(0, 100, SYN, 1000, 0, options=mss))
    send(1, tcp(1, 100, SYN | ACK, 5000, 1001, options=mss))
    send(0, tcp(0, 101, ACK, 1001, 5001))
    sequence = 1001
    for number in range(17):
        data = bytes((7 * (sequence + i)) % 251 for i in range(1460))
        send(0, tcp(0, 102 + number, ACK | (PSH if number == 16 else 0), sequence, 5001, data))
        sequence += len(data)
        if number % 2 == 1 or number == 16:
            send(1, tcp(1, 101 + number, ACK, 5001, sequence))
    send(0, tcp(0, 119, FIN | ACK, sequence, 5001))
    send(1, tcp(1, 119, FIN | ACK, 5001, sequence + 1))
    send(0, tcp(0, 120, ACK, sequence + 1, 5002))


main()
