"""M/G/14 as SimPy's own documentation would write it: a process per request, a Resource."""

import random
import sys
import time

import simpy

WORKERS, LOAD = 14, 0.8
REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000


def request(env, workers, rng, sojourns):
    arrived = env.now
    with workers.request() as turn:
        yield turn
        yield env.timeout(1.0 if rng.random() < 0.5 else 100.0)
    sojourns.append(env.now - arrived)


def arrivals(env, workers, rng, sojourns):
    rate = WORKERS * LOAD / 50.5
    for _ in range(REQUESTS):
        yield env.timeout(rng.expovariate(rate))
        env.process(request(env, workers, rng, sojourns))


start = time.process_time()
env, rng, sojourns = simpy.Environment(), random.Random(1), []
env.process(arrivals(env, simpy.Resource(env, capacity=WORKERS), rng, sojourns))
env.run()
spent = time.process_time() - start
assert len(sojourns) == REQUESTS
print(f"SimPy {simpy.__version__}, process per request\t{spent / REQUESTS * 1e9:.0f}"
      f"\t{sum(sojourns) / REQUESTS:.2f}")
