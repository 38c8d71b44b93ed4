//! What a replica, or a population of clients, has: threads, locks, pools, caches, and what waits
//! for it.

use super::network::{Cache, Quota, Service};
use cavy_core::family::probe::{Epoch, Usage};
use cavy_core::{Instant, Span};
use std::collections::VecDeque;

/// Nobody.
pub(super) const NONE: u32 = u32::MAX;

/// Something that came for a group while it stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parcel {
    /// A request, the visit it begins.
    Request(u32),
    /// The answer to a call, the visit that gave it.
    Answer(u32),
    /// The end of a visit's wait.
    Waited(u32),
    /// The end of a caller's patience, with the visit called and its generation.
    Patience(u32, u32),
    /// A period of background work.
    Background(u32),
    /// A client of an open population.
    Newcomer,
}

/// A lock.
#[derive(Debug, Default)]
pub(super) struct LockState {
    pub(super) spins: bool,
    pub(super) held: bool,
    /// Visits that wait, each with what it computes once it has the lock.
    pub(super) waiting: VecDeque<(u32, Span)>,
}

/// Places for calls under way.
#[derive(Debug)]
pub(super) struct PoolState {
    pub(super) free: u32,
    pub(super) waiting: VecDeque<u32>,
}

/// What is known of CPU time, as of [`Account::at`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub(super) usage: Usage,
    at: Instant,
    /// CPU time that each thread of a shared processor received so far; see [`super::cores`].
    received_ns: f64,
    /// CPU time below a nanosecond, where threads share.
    rest_ns: f64,
}

/// A freeze that a controller wants of this group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) controller: u32,
    pub(super) epoch: Epoch,
    /// When the group stands because of it.
    pub(super) lands: Instant,
    /// When it stands no more, once that is known.
    pub(super) leaves: Instant,
    /// Has the landing been carried out?
    pub(super) landed: bool,
}

/// A replica or a population of clients.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) service: u32,
    pub(super) processor: u32,
    /// Freezes that hold it, one a controller.
    pub(super) holds: Vec<Hold>,
    /// Does a freeze hold it now?
    pub(super) frozen: bool,
    /// Has it used up its quota?
    pub(super) throttled: bool,
    pub(super) frozen_since: Instant,
    /// Time for which it stood frozen, without the freeze that lasts.
    pub(super) stood: Span,
    pub(super) stops: u64,
    pub(super) leases_ended: u64,
    pub(super) throttled_since: Instant,
    pub(super) throttled_for: Span,
    /// What came while it stood.
    pub(super) inbox: VecDeque<Parcel>,
    /// Waits in virtual time that surfaced while it stood.
    pub(super) postponed: Vec<u32>,
    /// Visits that are ready to compute: their turn and who.
    pub(super) ready: VecDeque<(u64, u32)>,
    /// Visits that were on a core when it stopped.
    pub(super) parked: Vec<u32>,
    /// Visits on a core, spinning ones included.
    pub(super) running: u32,
    /// Visits that spin.
    pub(super) spinning: u32,
    pub(super) threads_free: u32,
    pub(super) threads_used: u32,
    /// Requests that wait for a thread.
    pub(super) backlog: VecDeque<u32>,
    /// Visits that have their answer and wait for a thread again.
    pub(super) returning: VecDeque<u32>,
    pub(super) locks: Vec<LockState>,
    pub(super) pools: Vec<PoolState>,
    /// For each cache by age, when each entry was filled last.
    pub(super) filled: Vec<Vec<Instant>>,
    /// Calls under way to it.
    pub(super) load: u32,
    pub(super) quota: Option<Quota>,
    pub(super) quota_left: Span,
    /// When the quota ends, if what runs goes on.
    pub(super) quota_ends: Instant,
    pub(super) account: Account,
    pub(super) visits: u64,
    pub(super) refused: u64,
    pub(super) timed_out: u64,
    pub(super) retried: u64,
    /// Threads that share: heap of (work received at the end, who), nearest first, and what each
    /// received.
    pub(super) sharing: super::cores::Sharers,
}

impl Replica {
    pub(super) fn new(index: u32, processor: u32, service: Option<&Service>) -> Self {
        let locks = service.map_or(&[][..], |one| &one.locks);
        let pools = service.map_or(&[][..], |one| &one.pools);
        let caches = service.map_or(&[][..], |one| &one.caches);
        let quota = service.and_then(|one| one.quota);
        Replica {
            service: index,
            processor,
            holds: Vec::new(),
            frozen: false,
            throttled: false,
            frozen_since: Instant::ZERO,
            stood: Span::ZERO,
            stops: 0,
            leases_ended: 0,
            throttled_since: Instant::ZERO,
            throttled_for: Span::ZERO,
            inbox: VecDeque::new(),
            postponed: Vec::new(),
            ready: VecDeque::new(),
            parked: Vec::new(),
            running: 0,
            spinning: 0,
            threads_free: service.and_then(|one| one.threads).unwrap_or(NONE),
            threads_used: 0,
            backlog: VecDeque::new(),
            returning: VecDeque::new(),
            locks: locks
                .iter()
                .map(|lock| LockState { spins: lock.spins, ..LockState::default() })
                .collect(),
            pools: pools
                .iter()
                .map(|pool| PoolState { free: pool.limit, waiting: VecDeque::new() })
                .collect(),
            filled: caches
                .iter()
                .map(|cache| match cache {
                    Cache::Ratio(_) => Vec::new(),
                    Cache::Ttl { keys, .. } => vec![Instant::NEVER; *keys as usize],
                })
                .collect(),
            load: 0,
            quota,
            quota_left: quota.map_or(Span::ZERO, |quota| quota.cpu),
            quota_ends: Instant::NEVER,
            account: Account::default(),
            visits: 0,
            refused: 0,
            timed_out: 0,
            retried: 0,
            sharing: super::cores::Sharers::default(),
        }
    }

    /// Does it do nothing now?
    #[inline]
    pub(super) fn stands(&self) -> bool {
        self.frozen || self.throttled
    }

    /// Time for which it stood frozen until `now`.
    #[inline]
    pub(super) fn stood_until(&self, now: Instant) -> Span {
        if self.frozen { self.stood + now.since(self.frozen_since) } else { self.stood }
    }

    /// Brings the account up to `now`. `received_ns` is what each thread of a shared processor has
    /// received.
    #[inline]
    pub(super) fn settle(&mut self, now: Instant, received_ns: Option<f64>) {
        let passed = now.since(self.account.at);
        if passed.is_zero() {
            return;
        }
        self.account.at = now;
        if let Some(received_ns) = received_ns {
            let each = received_ns - self.account.received_ns;
            self.account.received_ns = received_ns;
            if self.stands() {
                return;
            }
            let threads = self.sharing.threads() + self.spinning;
            let cpu = each * f64::from(threads) + self.account.rest_ns;
            let whole = cpu as u64;
            self.account.rest_ns = cpu - whole as f64;
            self.account.usage.cpu += Span::from_ns(whole);
            self.account.usage.runnable += passed * u64::from(threads);
            if threads > 0 {
                self.account.usage.busy += passed;
            }
        } else if !self.stands() {
            let cpu = passed * u64::from(self.running);
            self.account.usage.cpu += cpu;
            let threads = self.running + self.ready.len() as u32;
            self.account.usage.runnable += passed * u64::from(threads);
            if threads > 0 {
                self.account.usage.busy += passed;
            }
            if self.quota.is_some() {
                self.quota_left = self.quota_left.saturating_sub(cpu);
            }
        }
    }
}
