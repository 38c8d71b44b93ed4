//! Entries in order that have not begun to run.

use super::replica::Queued;
use crate::txn::{Ts, TxnId};
use alloc::collections::BTreeMap;
use core::ops::{Deref, DerefMut};

/// The entries, and whether the first one is known to wait for another node's clock.
///
/// After each message a node asks what may run now, and nearly always the answer is what it was.
#[derive(Default)]
pub(super) struct Queue {
    entries: BTreeMap<(Ts, TxnId), Queued>,
    /// The timestamp of the first entry, which waited for a clock when it was looked at last. No
    /// entry has changed since.
    pub waits: Option<Ts>,
}

impl Deref for Queue {
    type Target = BTreeMap<(Ts, TxnId), Queued>;

    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl DerefMut for Queue {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.waits = None;
        &mut self.entries
    }
}
