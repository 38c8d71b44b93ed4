//! A query under way: its parts, those that replace some of them, and what all come to together.

use crate::cluster::content::Content;
use crate::cluster::map::Bugs;
use crate::cluster::message::{Response, Told};
use crate::ring::Slice;
use alloc::vec::Vec;
use cavy_core::Instant;
use cavy_core::family::message::Call;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Sent; late from then on.
    Waits(Instant),
    /// Sent, and sent again from the first time on if there are not too many such; late from the
    /// second on.
    Hedges(Instant, Instant),
    Done,
    /// Given to others; may still come.
    Replaced,
    /// Nobody answers for it.
    Lost,
}

#[derive(Debug)]
pub(super) struct Piece<C: Content> {
    pub(super) server: u32,
    pub(super) slice: Slice,
    pub(super) parent: Option<u32>,
    pub(super) depth: u32,
    pub(super) stage: Stage,
    pub(super) found: Option<C::Finding>,
    /// When it was sent, when an answer was expected, and when it came.
    pub(super) sent: Instant,
    pub(super) expected: Instant,
    pub(super) came: Option<Instant>,
}

impl<C: Content> Piece<C> {
    /// Nobody is asked for it.
    pub(super) fn lost(
        server: u32,
        slice: Slice,
        parent: Option<u32>,
        depth: u32,
        now: Instant,
    ) -> Self {
        let (sent, expected, came) = (now, now, None);
        let stage = Stage::Lost;
        Piece { server, slice, parent, depth, stage, found: None, sent, expected, came }
    }

    /// An answer is waited for.
    pub(super) fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits(_) | Stage::Hedges(..))
    }
}

#[derive(Debug)]
pub(super) struct Query<C: Content> {
    /// Who waits. Nobody does when the deadline has passed: late parts then teach what servers
    /// take, and no more.
    pub(super) call: Option<Call>,
    /// It is answered then with what has come.
    pub(super) until: Option<Instant>,
    pub(super) question: C::Question,
    /// The parts of the plan, and after them those that replace some.
    pub(super) pieces: Vec<Piece<C>>,
}

impl<C: Content> Query<C> {
    /// When the next part is late, or its deadline passes.
    pub(super) fn wakes(&self) -> Option<Instant> {
        let late = |piece: &Piece<C>| match piece.stage {
            Stage::Waits(at) | Stage::Hedges(at, _) => Some(at),
            _ => None,
        };
        let late = self.pieces.iter().filter_map(late).min();
        let until = self.until.filter(|_| self.call.is_some());
        late.into_iter().chain(until).min()
    }

    /// The deadline has passed.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Something may still come that an answer would lack.
    pub(super) fn is_open(&self) -> bool {
        // Children stand after their parents, so one pass from the end is enough.
        let count = self.pieces.len();
        let mut open = alloc::vec![false; count];
        for at in (0..count).rev() {
            let piece = &self.pieces[at];
            open[at] = match piece.stage {
                Stage::Waits(_) | Stage::Hedges(..) => true,
                Stage::Done | Stage::Lost => false,
                Stage::Replaced => open[at],
            };
            if let (true, Some(parent)) = (open[at], piece.parent) {
                open[parent as usize] = true;
            }
        }
        self.pieces.iter().zip(&open).any(|(piece, open)| piece.parent.is_none() && *open)
    }

    /// What has come. What has not is lost: found and lost are each id once.
    pub(super) fn answer(&self, bugs: Bugs) -> Response<C> {
        let (mut all, mut lost) = (C::Found::default(), Vec::new());
        // A piece counts unless one above it has come itself: each id once.
        let mut covered = alloc::vec![false; self.pieces.len()];
        for (at, piece) in self.pieces.iter().enumerate() {
            let above = piece.parent.is_some_and(|parent| {
                covered[parent as usize] || self.pieces[parent as usize].stage == Stage::Done
            });
            covered[at] = above;
            if above && !bugs.counted_twice {
                continue;
            }
            match (&piece.stage, &piece.found) {
                (Stage::Done, Some(found)) => C::gather(&mut all, found),
                (Stage::Lost, _) => lost.push(piece.slice),
                (Stage::Waits(_) | Stage::Hedges(..), _) if !bugs.silent_deadlines => {
                    lost.push(piece.slice);
                }
                _ => {}
            }
        }
        let sent = self.pieces.iter().filter(|piece| piece.stage != Stage::Lost);
        let told = sent.map(|piece| Told {
            server: piece.server,
            slice: piece.slice,
            predicted: piece.expected.since(piece.sent),
            measured: piece.came.map(|came| came.since(piece.sent)),
        });
        let (parts, told) = (self.pieces.len() as u32, told.collect());
        Response::Found { found: all, lost, parts, told, timed_out: self.is_open() }
    }

    /// It has been answered before all had come: nobody is asked again, and what has come is not
    /// needed any more.
    pub(super) fn close(&mut self) {
        self.call = None;
        for piece in &mut self.pieces {
            piece.found = None;
            if let Stage::Hedges(_, late) = piece.stage {
                piece.stage = Stage::Waits(late);
            }
        }
    }
}
