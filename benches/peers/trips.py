"""Round trips of agents beside those of `ping` and of a program on Go's memberlist, pair by pair.

    sudo python3 benches/peers/trips.py CAVY_LIVE [SECONDS]

Six hosts on the line, as far from each other as six of RIPE's anchors were; all three measure every
pair, one after the other and in turns, SECONDS each (15). What is printed of a pair is the median
over both directions. The Go program is built under benches/target.
"""

import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILT = os.path.join(HERE, "..", "target", "peers-memberlist")
VERSION = "v0.5.0"
HOSTS = ["192.0.2.%d" % (10 + host) for host in range(6)]
# Milliseconds: London, Frankfurt, New York, San Francisco, Tokyo, Sydney, rounded.
RTT_MS = {
    (0, 1): 13.2, (0, 2): 76.1, (0, 3): 141.7, (0, 4): 228.4, (0, 5): 281.9,
    (1, 2): 88.3, (1, 3): 152.6, (1, 4): 240.2, (1, 5): 290.5,
    (2, 3): 71.9, (2, 4): 166.8, (2, 5): 207.3,
    (3, 4): 106.4, (3, 5): 147.6,
    (4, 5): 110.9,
}
TURNS = 2


def build():
    if shutil.which("go") is None:
        sys.exit("SKIPPED: no go")
    program = os.path.join(BUILT, "trips")
    os.makedirs(BUILT, exist_ok=True)
    shutil.copy(os.path.join(HERE, "memberlist", "main.go"), BUILT)
    for name in ("go.mod", "go.sum"):
        if os.path.exists(os.path.join(BUILT, name)):
            os.remove(os.path.join(BUILT, name))
    module = "github.com/hashicorp/memberlist@" + VERSION
    made = ["build", "-o", program, "."]
    steps = (["mod", "init", "trips"], ["get", module], ["mod", "tidy"], made)
    for words in steps:
        subprocess.run(["go", *words], cwd=BUILT, check=True, capture_output=True)
    return program


def world():
    lines = ["seed = 1"]
    for host, address in enumerate(HOSTS):
        lines += ["[[site]]", 'name = "a%d"' % host, 'hosts = ["%s"]' % address]
    for (a, b), ms in RTT_MS.items():
        lines += ["[[path]]", 'from = "a%d"' % a, 'to = "a%d"' % b, "one_way_ms = %s" % (ms / 2)]
    return "\n".join(lines) + "\n"


def pair(host, address):
    other = HOSTS.index(address)
    return (min(host, other), max(host, other))


class Running:
    """One program in each host."""

    def __init__(self, spaces, command):
        self.all = [
            subprocess.Popen(["ip", "netns", "exec", space, *command(host)], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
            for host, space in enumerate(spaces)
        ]

    def lines(self, seconds):
        time.sleep(seconds)
        for one in self.all:
            one.terminate()
        for host, one in enumerate(self.all):
            for line in one.communicate()[0].splitlines():
                yield host, line


def main():
    live = os.path.abspath(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 15.0
    trips = build()
    print("#", subprocess.check_output([trips, "version"], text=True).strip())
    print("#", subprocess.check_output(["ping", "-V"], text=True).splitlines()[0])
    plan = os.path.join(BUILT, "world.toml")
    with open(plan, "w") as file:
        file.write(world())
    line = subprocess.Popen([live, "line", "up", plan, "--json"], stdout=subprocess.PIPE, text=True)
    try:
        up = json.loads(line.stdout.readline())
        measure(live, trips, seconds, up, plan)
    finally:
        line.terminate()
        said = json.loads(line.communicate()[0].splitlines()[-1])
        print("# the line was late, us:", said["late"])


def ping(space, to, end, found):
    while time.monotonic() < end:
        # One at a time: only the summary has microseconds of what takes 100 ms or more.
        words = ["ip", "netns", "exec", space, "ping", "-n", "-c", "1", to]
        said = subprocess.run(words, capture_output=True, text=True).stdout
        if "rtt min/avg/max" in said:
            found.append(float(said.split(" = ")[1].split("/")[1]))
        time.sleep(0.1)


def measure(live, trips, seconds, up, plan):
    spaces = [host["space"] for host in sorted(up["hosts"], key=lambda one: one["address"])]
    found = {way: collections.defaultdict(list) for way in ("ping", "memberlist", "agent")}
    others = [[other for other in HOSTS if other != own] for own in HOSTS]
    for _ in range(TURNS):
        end = time.monotonic() + seconds
        pinging = [
            threading.Thread(target=ping, args=(spaces[a], HOSTS[b], end, found["ping"][a, b]))
            for (a, b) in RTT_MS
        ]
        for one in pinging:
            one.start()
        for one in pinging:
            one.join()
        running = Running(spaces, lambda host: [trips, HOSTS[host], "200ms", *others[host]])
        for host, text in running.lines(seconds):
            address, ms = text.split()
            found["memberlist"][pair(host, address)].append(float(ms))
        running = Running(spaces, lambda host: [
            live, "coords", "agent", "--bind", HOSTS[host] + ":7946", "--every", "200ms", "--json",
            *[word for other in others[host] for word in ("--peer", other + ":7946")]])
        for host, text in running.lines(seconds):
            said = json.loads(text)
            if "rtt_ms" in said:
                address = said["peer"].rsplit(":", 1)[0]
                found["agent"][pair(host, address)].append(said["rtt_ms"])
    print("| pair | told, ms | ping | memberlist | agent | how many of each |")
    print("|---|---|---|---|---|---|")
    apart = collections.defaultdict(list)
    for of, told in RTT_MS.items():
        medians = {way: statistics.median(found[way][of]) for way in found}
        for way, median in medians.items():
            apart[way + " less what was told"].append(1e3 * (median - told))
        apart["agent less ping"].append(1e3 * (medians["agent"] - medians["ping"]))
        counts = ", ".join(str(len(found[way][of])) for way in found)
        cells = " | ".join("%.3f" % medians[way] for way in found)
        print("| %d, %d | %s | %s | %s |" % (*of, told, cells, counts))
    for way, all_us in apart.items():
        all_us.sort()
        print("# %s, us, least, median, greatest of all pairs: %.0f, %.0f, %.0f"
              % (way, all_us[0], statistics.median(all_us), all_us[-1]))


if __name__ == "__main__":
    main()
