"""M/G/14 with SimPy's event list only: callbacks on timeouts, no process, no Resource."""

import random
import sys
import time
from collections import deque

import simpy

WORKERS, LOAD = 14, 0.8
REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000


class Pool:
    def __init__(self, env, rng):
        self.env, self.rng = env, rng
        self.rate = WORKERS * LOAD / 50.5
        self.idle, self.queue = WORKERS, deque()
        self.left, self.completed, self.total = REQUESTS, 0, 0.0
        self.await_arrival()

    def await_arrival(self):
        self.left -= 1
        self.env.timeout(self.rng.expovariate(self.rate)).callbacks.append(self.arrive)

    def arrive(self, _):
        if self.left:
            self.await_arrival()
        if self.idle:
            self.idle -= 1
            self.serve(self.env.now)
        else:
            self.queue.append(self.env.now)

    def serve(self, arrived):
        service = 1.0 if self.rng.random() < 0.5 else 100.0
        self.env.timeout(service, arrived).callbacks.append(self.complete)

    def complete(self, event):
        self.total += self.env.now - event.value
        self.completed += 1
        if self.queue:
            self.serve(self.queue.popleft())
        else:
            self.idle += 1


start = time.process_time()
env = simpy.Environment()
pool = Pool(env, random.Random(1))
env.run()
spent = time.process_time() - start
assert pool.completed == REQUESTS
print(f"SimPy {simpy.__version__}, callbacks only\t{spent / REQUESTS * 1e9:.0f}"
      f"\t{pool.total / REQUESTS:.2f}")
