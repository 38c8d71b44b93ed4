"""A closed chain of three services as SimPy's documentation would write it: a process per client, a
Resource per service. Service times, cores, clients and hops are those of benches/services.rs."""

import random
import sys
import time

import simpy

WORKS_US, CORES, CLIENTS, HOP_US = (600.0, 1_000.0, 500.0), 2, 64, 100.0
UNTIL_US = float(sys.argv[1]) if len(sys.argv) > 1 else 20e6


class Chain:
    def __init__(self, env, rng):
        self.env, self.rng = env, rng
        self.services = [simpy.Resource(env, capacity=CORES) for _ in WORKS_US]
        self.completed = self.visits = 0

    def visit(self, place):
        yield self.env.timeout(HOP_US)
        with self.services[place].request() as turn:
            yield turn
            self.visits += 1
            yield self.env.timeout(self.rng.expovariate(1.0 / WORKS_US[place]))
        if place + 1 < len(WORKS_US):
            yield from self.visit(place + 1)
        yield self.env.timeout(HOP_US)

    def client(self):
        while True:
            yield from self.visit(0)
            self.completed += 1


start = time.process_time()
env = simpy.Environment()
chain = Chain(env, random.Random(1))
for _ in range(CLIENTS):
    env.process(chain.client())
env.run(until=UNTIL_US)
spent = time.process_time() - start
print(f"SimPy {simpy.__version__}, closed chain\t{spent / chain.visits * 1e9:.0f}"
      f"\t{chain.completed / UNTIL_US * 1e6:.0f}")
