#!/usr/bin/env python3
"""Has the kernel of this machine write TCP and ICMP, and keeps the packets in linux.txt.

Run as root: `ip netns add captures; ip netns exec captures python3 make.py; ip netns del
captures`. The script is the other host, behind a TUN device; what it says is written by hand
here, and what the kernel answers is read with `struct` alone, so that neither side of the test is
our codec.
"""
import fcntl, os, socket, struct, subprocess, sys

US, KERNEL = "10.9.0.1", "10.9.0.2"


def sh(*words):
    subprocess.run(words, check=True)


def sysctl(name, value):
    with open("/proc/sys/net/ipv4/" + name, "w") as file:
        file.write(value)


def total(data):
    data += b"\0" * (len(data) % 2)
    sum_ = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while sum_ >> 16:
        sum_ = (sum_ & 0xFFFF) + (sum_ >> 16)
    return ~sum_ & 0xFFFF


def ip(protocol, body, to=KERNEL, df=True):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 7, 0x4000 if df else 0, 64,
                       protocol, 0, socket.inet_aton(US), socket.inet_aton(to))
    return head[:10] + struct.pack("!H", total(head)) + head[12:] + body


def tcp(sport, dport, seq, ack, flags, window=65535, options=b"", data=b"", to=KERNEL):
    head = struct.pack("!HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF,
                       (20 + len(options)) // 4 << 4, flags, window, 0, 0) + options + data
    pseudo = socket.inet_aton(US) + socket.inet_aton(to) + struct.pack("!BBH", 0, 6, len(head))
    return ip(6, head[:16] + struct.pack("!H", total(pseudo + head)) + head[18:], to)


def said(packet):
    """What a packet of TCP says, in the words of the test."""
    start = (packet[0] & 15) * 4
    sport, dport, seq, ack, offset, flags, window = struct.unpack("!HHIIBBH",
                                                                  packet[start:start + 16])
    end = start + (offset >> 4) * 4
    words, at = [], start + 20
    while at < end and packet[at] != 0:
        if packet[at] == 1:
            at += 1
            continue
        kind, length = packet[at], packet[at + 1]
        body = packet[at + 2:at + length]
        if kind == 2:
            words.append("mss %d" % struct.unpack("!H", body))
        elif kind == 3:
            words.append("scale %d" % body[0])
        elif kind == 4:
            words.append("sackok")
        elif kind == 5:
            edges = struct.unpack("!%dI" % (len(body) // 4), body)
            words += ["sack %d:%d" % pair for pair in zip(edges[::2], edges[1::2])]
        elif kind == 8:
            words.append("stamps %d,%d" % struct.unpack("!II", body))
        at += length
    names = [(2, "S"), (1, "F"), (4, "R"), (8, "P"), (16, ".")]
    letters = "".join(letter for bit, letter in names if flags & bit)
    length = struct.unpack("!H", packet[2:4])[0] - end
    return " ".join(["%d>%d" % (sport, dport), letters or "-", "seq %d" % seq, "ack %d" % ack,
                     "window %d" % window] + words + ["octets %d" % length])


tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"t0", 0x1001))
os.set_blocking(tun, False)
sh("ip", "link", "set", "lo", "up")
sh("ip", "link", "set", "t0", "addrgenmode", "none")
sh("ip", "addr", "add", KERNEL + "/24", "dev", "t0")
sh("ip", "link", "set", "t0", "up")
sysctl("ip_forward", "1")
sysctl("conf/all/rp_filter", "0")
sysctl("conf/t0/rp_filter", "0")
held = []  # What python forgets it closes.
out = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "linux.txt"), "w")
kernel = os.uname().release
out.write("# Packets that Linux %s wrote, by make.py: name | what it says | bytes.\n" % kernel)


def heard(name=None, keep=lambda packet: True):
    """The next packet of the kernel that is meant, kept under a name."""
    import select
    while True:
        if not select.select([tun], [], [], 3)[0]:
            sys.exit("nothing heard for " + str(name))
        packet = os.read(tun, 4096)
        if packet[0] >> 4 == 4 and packet[9] in (1, 6) and keep(packet):
            break
    if name:
        words = said(packet) if packet[9] == 6 else "icmp %d %d" % (packet[20], packet[21])
        out.write("%s | %s | %s\n" % (name, words, packet.hex()))
    return packet


def opened(port, name, options, **settings):
    for key, value in settings.items():
        sysctl(key, value)
    server = socket.create_server((KERNEL, port))
    os.write(tun, tcp(4000 + port, port, 1000, 0, 2, options=options))
    answer = heard(name + " syn-ack")
    theirs = struct.unpack("!I", answer[24:28])[0] + 1
    held.append(server)
    return server, theirs


MSS, OK, WS, NOP = b"\2\4\x05\xb4", b"\4\2", b"\3\3\7", b"\1"


def ts(value, echo=0):
    return b"\x08\x0a" + struct.pack("!II", value, echo)


# Everything agreed on, then data out of order, a duplicate, and a close.
server, theirs = opened(80, "all", MSS + OK + ts(5) + NOP + WS)
stamp = NOP + NOP + ts(6)
os.write(tun, tcp(4080, 80, 1001, theirs, 16, options=stamp))
peer, _ = server.accept()
held.append(peer)
os.write(tun, tcp(4080, 80, 1001 + 100, theirs, 24, options=stamp, data=b"b" * 50))
heard("all one hole")
os.write(tun, tcp(4080, 80, 1001 + 200, theirs, 24, options=stamp, data=b"d" * 50))
heard("all two holes")
os.write(tun, tcp(4080, 80, 1001 + 300, theirs, 24, options=stamp, data=b"f" * 50))
heard("all three holes")
os.write(tun, tcp(4080, 80, 1001 + 300, theirs, 24, options=stamp, data=b"f" * 50))
heard("all a duplicate")
os.write(tun, tcp(4080, 80, 1001, theirs, 24, options=stamp, data=b"a" * 350))
heard("all whole again")
peer.send(b"hello")
data = heard("all data")
os.write(tun, tcp(4080, 80, 1351, theirs + 5, 16, options=stamp))
peer.close()
held.clear()
heard("all reset for what nobody read", lambda packet: packet[33] & 4)
# Without timestamps; then four blocks fit.
server, theirs = opened(81, "no stamps", MSS + NOP + NOP + OK + NOP + WS, tcp_timestamps="0")
os.write(tun, tcp(4081, 81, 1001, theirs, 16))
peer, _ = server.accept()
held.append(peer)
for hole in range(1, 6):
    os.write(tun, tcp(4081, 81, 1001 + 100 * hole, theirs, 24, data=b"x" * 50))
    heard("no stamps hole %d" % hole)
peer.send(b"an odd length")
heard("no stamps data")
# Nothing agreed on.
server, theirs = opened(82, "nothing", MSS, tcp_sack="0", tcp_window_scaling="0")
os.write(tun, tcp(4082, 82, 1001, theirs, 16))
peer, _ = server.accept()
held.append(peer)
os.write(tun, tcp(4082, 82, 1101, theirs, 24, data=b"x" * 50))
heard("nothing hole")
peer.shutdown(socket.SHUT_WR)
heard("nothing fin")
# Nobody listens.
os.write(tun, tcp(9, 9, 77, 0, 2, options=MSS))
heard("refused")
os.write(tun, tcp(9, 9, 77, 123456, 16))
heard("stray")
# The kernel opens.
for name, settings in [("plain", {}), ("sack", {"tcp_sack": "1"}),
                       ("scale", {"tcp_window_scaling": "1"}), ("full", {"tcp_timestamps": "1"})]:
    for key, value in settings.items():
        sysctl(key, value)
    client = socket.socket()
    client.setblocking(False)
    try:
        client.connect((US, 99))
    except BlockingIOError:
        pass
    heard("opens " + name, lambda packet: packet[33] == 2)
    client.close()
# What routers say.
sh("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
sh("ip", "addr", "add", "10.8.0.1/24", "dev", "v0")
sh("ip", "link", "set", "v0", "mtu", "600", "up")
sh("ip", "link", "set", "v1", "up")
sh("ip", "neigh", "add", "10.8.0.9", "lladdr", "02:00:00:00:00:09", "dev", "v0")
sh("ip", "route", "add", "unreachable", "10.7.0.0/24")
sh("ip", "route", "add", "prohibit", "10.6.0.0/24")
is_icmp = lambda packet: packet[9] == 1
os.write(tun, tcp(7, 8, 4242, 1, 24, data=b"x" * 1000, to="10.8.0.9"))
heard("too long", is_icmp)
os.write(tun, tcp(7, 8, 4243, 1, 24, data=b"x", to="10.7.0.9"))
heard("no way", is_icmp)
os.write(tun, tcp(7, 8, 4244, 1, 24, data=b"x", to="10.6.0.9"))
heard("forbidden", is_icmp)
os.write(tun, ip(1, (lambda b: b[:2] + struct.pack("!H", total(b)) + b[4:])(
    struct.pack("!BBHHH", 8, 0, 0, 3, 4) + b"ping"), df=False))
heard("echo reply", is_icmp)
