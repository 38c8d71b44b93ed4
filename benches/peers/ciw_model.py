"""M/G/14 in Ciw: a network of one node."""

import sys
import time

import ciw

WORKERS, LOAD = 14, 0.8
REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000

start = time.process_time()
ciw.seed(1)
network = ciw.create_network(
    arrival_distributions=[ciw.dists.Exponential(rate=WORKERS * LOAD / 50.5)],
    service_distributions=[ciw.dists.Pmf(values=[1.0, 100.0], probs=[0.5, 0.5])],
    number_of_servers=[WORKERS],
)
simulation = ciw.Simulation(network)
simulation.simulate_until_max_customers(REQUESTS, method="Finish")
spent = time.process_time() - start
sojourns = [r.exit_date - r.arrival_date for r in simulation.get_all_records()]
version = getattr(ciw, "__version__", "")
print(f"Ciw {version}\t{spent / len(sojourns) * 1e9:.0f}\t{sum(sojourns) / len(sojourns):.2f}")
