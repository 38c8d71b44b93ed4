//! Players and their probes, kept for the points of a plan that meet the same: to make them up
//! takes a third of the time of predicting them.
//!
//! Probes lie in a file without a name, which goes when the program ends: tens of millions take
//! more memory than most predictors. Made players are known by all that they depend on, so a result
//! does not tell whether they were kept.

use super::plan::PlayersPlan;
use super::players::Players;
use super::world::World;
use cavy_coords::predictors::Probe;
use cavy_core::Instant;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Players that are kept, of all replications of a plan: some 500 MB.
const PLAYERS_MAX: u64 = 5_000_000;
/// Probes that are kept, of all replications of a plan: two gigabytes.
const PROBES_MAX: u64 = 80_000_000;
/// Replications that are kept: each has an open file.
const REPLICATIONS_MAX: usize = 200;
/// Bytes of a probe.
const PROBE_BYTES: usize = 24;
/// Probes that are read at a time.
const BLOCK: usize = 16_384;

/// Probes in a file.
pub struct Trace {
    /// One reader at a time.
    file: Mutex<File>,
    probes: u64,
    failed: AtomicBool,
}

impl Trace {
    /// Writes probes down.
    ///
    /// # Errors
    /// When there is no room for them.
    pub fn write(probes: impl Iterator<Item = Probe>) -> io::Result<Trace> {
        let mut to = BufWriter::with_capacity(BLOCK * PROBE_BYTES, tempfile::tempfile()?);
        let mut count = 0;
        for Probe { from, to: whom, rtt_ms, at } in probes {
            let mut bytes = [0; PROBE_BYTES];
            bytes[..4].copy_from_slice(&from.to_le_bytes());
            bytes[4..8].copy_from_slice(&whom.to_le_bytes());
            bytes[8..16].copy_from_slice(&rtt_ms.to_bits().to_le_bytes());
            bytes[16..].copy_from_slice(&at.as_ns().to_le_bytes());
            to.write_all(&bytes)?;
            count += 1;
        }
        let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Trace { file: Mutex::new(file), probes: count, failed: AtomicBool::new(false) })
    }

    /// The probes as they were written; fewer when the file cannot be read, see
    /// [`Trace::has_failed`].
    pub fn read(&self) -> impl Iterator<Item = Probe> + '_ {
        let (mut read, mut block) = (0, Vec::new());
        std::iter::from_fn(move || {
            let count = (self.probes - read).min(BLOCK as u64);
            block.resize(count as usize * PROBE_BYTES, 0);
            let from = read * PROBE_BYTES as u64;
            read += count;
            let mut file = locked(&self.file);
            let done = file.seek(SeekFrom::Start(from)).and_then(|_| file.read_exact(&mut block));
            if done.is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            (count > 0 && done.is_ok()).then(|| {
                let all = block.chunks_exact(PROBE_BYTES).map(probe);
                all.collect::<Vec<_>>()
            })
        })
        .flatten()
    }

    /// Could some probes not be read?
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

fn probe(bytes: &[u8]) -> Probe {
    let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    Probe {
        from: number(0),
        to: number(4),
        rtt_ms: f64::from_bits(long(8)),
        at: Instant::from_ns(long(16)),
    }
}

/// What one replication has in common, whoever predicts.
pub struct Made {
    /// The players.
    pub world: World,
    /// Their probes; `None` where they are drawn whenever they are needed.
    pub trace: Option<Trace>,
}

impl Made {
    /// Players alone.
    pub fn new(plan: &PlayersPlan, seed: u64) -> Made {
        Made { world: Players::world(plan, seed), trace: None }
    }
}

/// One replication: locked while somebody makes it, so that nobody else does.
type Cell = Arc<Mutex<Option<Arc<Made>>>>;

/// All that players and probes depend on, apart from the seed.
#[derive(Clone, PartialEq)]
pub struct Key {
    /// How players are made up.
    pub players: PlayersPlan,
    /// Probes that each makes.
    pub probes_per_node: u32,
}

impl Key {
    fn probes(&self) -> u64 {
        u64::from(self.players.count) * u64::from(self.probes_per_node)
    }
}

/// Replications of the last plan.
struct Last {
    key: Option<Key>,
    cells: Vec<(u64, Cell)>,
}

/// Replications of the last plan that ran.
pub struct Kept {
    last: Mutex<Last>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Kept {
    fn default() -> Self {
        Kept::new()
    }
}

impl Kept {
    /// Nothing yet.
    pub const fn new() -> Kept {
        Kept { last: Mutex::new(Last { key: None, cells: Vec::new() }) }
    }

    /// The replication of `seed`, made by `make` if it is not known. Whatever is too much to keep
    /// is made by `alone`.
    pub fn of(
        &self,
        key: &Key,
        seed: u64,
        make: impl FnOnce() -> Made,
        alone: impl FnOnce() -> Made,
    ) -> Arc<Made> {
        let Some(cell) = self.cell(key, seed) else { return Arc::new(alone()) };
        let mut cell = locked(&cell);
        cell.get_or_insert_with(|| Arc::new(make())).clone()
    }

    fn cell(&self, key: &Key, seed: u64) -> Option<Cell> {
        let mut last = locked(&self.last);
        if last.key.as_ref() != Some(key) {
            *last = Last { key: Some(key.clone()), cells: Vec::new() };
        }
        if let Some((_, cell)) = last.cells.iter().find(|(of, _)| *of == seed) {
            return Some(cell.clone());
        }
        let count = last.cells.len() + 1;
        let fits = count as u64 * u64::from(key.players.count) <= PLAYERS_MAX
            && count as u64 * key.probes() <= PROBES_MAX
            && count <= REPLICATIONS_MAX;
        fits.then(|| {
            let cell = Cell::default();
            last.cells.push((seed, cell.clone()));
            cell
        })
    }
}
