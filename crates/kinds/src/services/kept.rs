//! Systems that ran alone, kept for the points of a plan that need them again.
//!
//! All methods are judged by the same truth, and all shares by the same unchanged system: of five
//! methods and ten shares, 50 points need 10 and 1 of them. A system is known by all that its run
//! depends on, so a result does not tell whether it was kept.

use super::run::Measured;
use super::scenario::Scenario;
use cavy_lab::services::Network;
use cavy_study::point::{Manner, Queue, RunError};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All that a run of a system depends on.
#[derive(PartialEq)]
struct Key {
    network: Network,
    seed: u64,
    warmup: u64,
    requests: u64,
    queue: Option<Queue>,
    shuffle_ties: Option<u64>,
}

/// One system: locked while somebody runs it, so that nobody else does.
type Cell = Arc<Mutex<Option<Arc<Measured>>>>;

/// The last systems that ran. Runs take the points of a plan in their order, and those that share a
/// system adjoin.
pub struct Kept {
    most: usize,
    last: Mutex<VecDeque<(Key, Cell)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    pub const fn new(most: usize) -> Self {
        Kept { most, last: Mutex::new(VecDeque::new()) }
    }

    /// `network` as `scenario` runs it alone, run by `run` if it is not known. Who wants everything
    /// twice gets that.
    pub fn of(
        &self,
        scenario: &Scenario,
        network: &Network,
        seed: u64,
        manner: &Manner,
        run: impl FnOnce() -> Result<Measured, RunError>,
    ) -> Result<Arc<Measured>, RunError> {
        if manner.twice {
            return run().map(Arc::new);
        }
        let key = Key {
            network: network.clone(),
            seed,
            warmup: scenario.warmup,
            requests: scenario.requests,
            queue: manner.queue,
            shuffle_ties: manner.shuffle_ties,
        };
        let cell = self.cell(key);
        let mut cell = locked(&cell);
        if let Some(measured) = &*cell {
            return Ok(measured.clone());
        }
        let measured = Arc::new(run()?);
        *cell = Some(measured.clone());
        Ok(measured)
    }

    fn cell(&self, key: Key) -> Cell {
        let mut last = locked(&self.last);
        if let Some((_, cell)) = last.iter().find(|(other, _)| *other == key) {
            return cell.clone();
        }
        if last.len() == self.most {
            last.pop_front();
        }
        let cell = Cell::default();
        last.push_back((key, cell.clone()));
        cell
    }
}
