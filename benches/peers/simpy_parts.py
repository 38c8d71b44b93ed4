"""Search on 48 servers with SimPy: the queries that `cargo bench --bench parts -- FILE` wrote, a
Resource per server. By argument `plans` each query looks for its start itself, by a sweep over the
ring, and must find a finish as early as that of its plan; then it sends the parts of the plan, so
that the mean is that of the lab whichever way."""

import heapq
import sys
import time

import simpy

plans = "plans" in sys.argv[2:]
with open(sys.argv[1]) as file:
    n, p = map(int, next(file).split())
    ring = [tuple(map(int, next(file).split())) for _ in range(n)]
    wanted = float(next(file))
    queries = []
    for line in file:
        at, *parts = line.split()
        queries.append((int(at), [tuple(map(int, part.split(":"))) for part in parts]))

WHOLE = 1 << 64
starts = [row[0] for row in ring]
width = WHOLE // p
# What a part of equal length takes of the server at each place.
takes = [fixed + (scan * width >> 64) for _, _, fixed, scan in ring]
server_at = [row[1] for row in ring]


def owner(point):
    # The last range that begins at or before the point; the first one may begin after it.
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if starts[middle] <= point:
            low = middle + 1
        else:
            high = middle
    return (low - 1) % n


def sweep(now, free_at):
    """The earliest finish over all starts."""
    finish = [max(free_at[server_at[at]] - now, 0) + takes[at] for at in range(n)]
    heads = [owner(WHOLE * j // p) for j in range(p)]
    crossings = [((starts[(at + 1) % n] - WHOLE * j // p) % WHOLE, j) for j, at in enumerate(heads)]
    heapq.heapify(crossings)
    best = max(finish[at] for at in heads)
    while crossings[0][0] < width:
        _, j = crossings[0]
        heads[j] = (heads[j] + 1) % n
        after = (starts[(heads[j] + 1) % n] - WHOLE * j // p) % WHOLE
        heapq.heapreplace(crossings, (after, j))
        worst = max(finish[at] for at in heads)
        if worst < best:
            best = worst
    return best


class Cluster:
    def __init__(self, env):
        self.env = env
        self.servers = [simpy.Resource(env) for _ in range(n)]
        self.free_at = [0] * n
        self.total = self.parts = self.worse = 0

    def part(self, server, service):
        with self.servers[server].request() as turn:
            yield turn
            yield self.env.timeout(service)

    def query(self, parts):
        came = self.env.now
        best = sweep(came, self.free_at) if plans else None
        last = came
        for server, service in parts:
            self.free_at[server] = max(self.free_at[server], came) + service
            last = max(last, self.free_at[server])
        if best is not None and abs(last - came - best) > p:
            self.worse += 1
        yield self.env.all_of([self.env.process(self.part(*part)) for part in parts])
        self.total += self.env.now - came
        self.parts += len(parts)

    def arrivals(self):
        for at, parts in queries:
            yield self.env.timeout(at - self.env.now)
            self.env.process(self.query(parts))


start = time.process_time()
env = simpy.Environment()
cluster = Cluster(env)
env.process(cluster.arrivals())
env.run()
spent = time.process_time() - start
mean = cluster.total / len(queries) / 1e6
assert abs(mean - wanted) < 1e-5, (mean, wanted)
assert cluster.worse == 0, f"{cluster.worse} plans are not the best"
how = "sweeps too" if plans else "given all plans"
print(f"SimPy {simpy.__version__}, {how}\t{spent / cluster.parts * 1e9:.0f}\t{mean:.3f}")
