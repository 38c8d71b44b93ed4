//! Processor sharing: every request runs at once on a slot of its own, and the cores are shared
//! equally among them, as with a thread per request on a fair kernel.
//!
//! The policy only hands out slots; a world that offers this family with shared cores does the
//! sharing ([persephone 5.1], processor sharing).

use crate::darc::reservation::Table;
use crate::machine::{Inspect, Learning};
use alloc::vec::Vec;
use cavy_core::family::cpu::{DropReason, Effect, Input, Timer, Worker};
use cavy_core::{Cx, Machine};

/// A slot for each request, up to a limit.
#[derive(Clone, Debug)]
pub struct Sharing {
    slots: u16,
    /// Free slots, the lowest last.
    free: Vec<u16>,
    busy: Vec<bool>,
}

impl Sharing {
    /// At most `slots` requests at once; more are dropped.
    pub fn new(slots: u16) -> Self {
        Sharing {
            slots,
            free: (0..slots).rev().collect(),
            busy: alloc::vec![false; slots as usize],
        }
    }

    fn release(&mut self, slot: u16) {
        if self.busy.get(slot as usize).copied().unwrap_or(false) {
            self.busy[slot as usize] = false;
            if slot < self.slots {
                self.free.push(slot);
            }
        }
    }
}

impl Machine for Sharing {
    type Input = Input;
    type Effect = Effect;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        1
    }

    fn start(&mut self, _: &mut Cx<'_, Effect, Timer>) {}

    fn handle(&mut self, input: Input, cx: &mut Cx<'_, Effect, Timer>) {
        match input {
            Input::Arrive { req, .. } => match self.free.pop() {
                Some(slot) => {
                    self.busy[slot as usize] = true;
                    cx.emit(Effect::Run { worker: Worker(slot), req, stolen: false });
                }
                None => cx.emit(Effect::Drop { req, why: DropReason::QueueFull }),
            },
            Input::Finished { worker, .. }
            | Input::Skipped { worker, .. }
            | Input::Yielded { worker, .. } => {
                self.release(worker.0);
            }
            // Cores come and go below the slots; a request in flight keeps its slot.
            Input::Resize { workers } => {
                let slots = workers.min(self.busy.len() as u16);
                self.free.clear();
                self.free.extend((0..slots).rev().filter(|&slot| !self.busy[slot as usize]));
                self.slots = slots;
            }
        }
    }

    fn expire(&mut self, _: Timer, _: &mut Cx<'_, Effect, Timer>) {}
}

impl Inspect for Sharing {
    fn reservation(&self) -> Option<&Table> {
        None
    }
    fn waiting(&self) -> usize {
        0
    }
    fn learning(&self) -> Option<Learning> {
        None
    }
}
