//! What a run tells those who watch it.

use cavy_core::{Instant, Span};

/// A request that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Its number, in order of arrival from 0.
    pub number: u64,
    /// Its true type, an index into the mix.
    pub kind: u16,
    /// From when the client sent it to when the client has the response.
    pub latency: Span,
    /// Of it, what was neither its own work nor the way there and back: waiting, and what
    /// scheduling costs.
    pub waited: Span,
    /// When it ended.
    pub at: Instant,
}

/// Watches a run of machine `M`.
pub trait Observer<M: ?Sized> {
    /// Request `number` of type `kind` arrived; so many others were in the system.
    fn arrived(&mut self, _number: u64, _kind: u16, _in_system: u64) {}
    /// A request ended.
    fn finished(&mut self, _done: &Done) {}
    /// A request was dropped.
    fn dropped(&mut self, _number: u64, _kind: u16, _at: Instant) {}
    /// The machine changed its reservation.
    fn reserved(&mut self, _at: Instant, _machine: &M) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl<M: ?Sized> Observer<M> for Unobserved {}

/// Two observers of the same run.
impl<M: ?Sized, A: Observer<M>, B: Observer<M>> Observer<M> for (&mut A, &mut B) {
    #[inline]
    fn arrived(&mut self, number: u64, kind: u16, in_system: u64) {
        self.0.arrived(number, kind, in_system);
        self.1.arrived(number, kind, in_system);
    }
    #[inline]
    fn finished(&mut self, done: &Done) {
        self.0.finished(done);
        self.1.finished(done);
    }
    fn dropped(&mut self, number: u64, kind: u16, at: Instant) {
        self.0.dropped(number, kind, at);
        self.1.dropped(number, kind, at);
    }
    fn reserved(&mut self, at: Instant, machine: &M) {
        self.0.reserved(at, machine);
        self.1.reserved(at, machine);
    }
}
