//! Windows of measurement: each begins and ends while nobody stands.

use super::config::{TARGETS, Windows};
use alloc::vec::Vec;
use cavy_core::{Instant, Span};

/// Reasons to doubt a reading, as bits of [`Reading::doubts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubts;

impl Doubts {
    /// Debts grew beyond what the greatest duty lets pauses pay.
    pub const DUTY: u8 = 1;
    /// The target idled in more than half of the pauses: too few requests, or pauses too long (A3).
    pub const IDLE: u8 = 2;
    /// Pauses took longer than asked by a fifth, and cannot be longer.
    pub const LONG: u8 = 4;
    /// Some group or host did not confirm, and was let go by its lease.
    pub const UNCONFIRMED: u8 = 8;
    /// A group ended.
    pub const GONE: u8 = 16;
    /// Nothing was completed.
    pub const NOTHING: u8 = 32;
}

/// What one window came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reading {
    /// Number of the window, from 0.
    pub index: u32,
    /// Were there pauses, as its manner says? Otherwise it is a baseline.
    pub slowed: bool,
    /// From when.
    pub from: Instant,
    /// Until when.
    pub to: Instant,
    /// Requests that the edge answered.
    pub completions: u64,
    /// Pauses.
    pub pauses: u32,
    /// Pauses in which a target did nothing.
    pub idle: u32,
    /// Time that all but the targets were asked to stand.
    pub asked: Span,
    /// Time in which they stood together: what virtual time leaves out.
    pub paused: Span,
    /// Time for which each of them stood, on average.
    pub paused_mean: Span,
    /// Time in which any of them stood.
    pub paused_any: Span,
    /// Visits to each target, where they are counted.
    pub visits: [u64; TARGETS],
    /// CPU time of each target, where it is read.
    pub cpu: [Span; TARGETS],
    /// CPU time of each target while all others stood.
    pub cpu_inside: [Span; TARGETS],
    /// Bits of [`Doubts`].
    pub doubts: u8,
}

impl Reading {
    /// Length of the window on the wall.
    pub fn elapsed(&self) -> Span {
        self.to.since(self.from)
    }

    /// Length of the window in virtual time.
    pub fn elapsed_virtual(&self) -> Span {
        self.elapsed().saturating_sub(self.paused)
    }

    /// CPU time of all targets.
    pub fn used(&self) -> Span {
        self.cpu.iter().fold(Span::ZERO, |sum, one| sum + *one)
    }

    /// CPU time of all targets while all others stood.
    pub fn got(&self) -> Span {
        self.cpu_inside.iter().fold(Span::ZERO, |sum, one| sum + *one)
    }

    /// Throughput of the changed system, in requests a second.
    pub fn predicted_per_s(&self) -> f64 {
        self.completions as f64 * 1e9 / (self.elapsed_virtual().as_ns().max(1)) as f64
    }

    /// Throughput on the wall, in requests a second.
    pub fn measured_per_s(&self) -> f64 {
        self.completions as f64 * 1e9 / (self.elapsed().as_ns().max(1)) as f64
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// What was before dies away.
    Settling,
    /// It opens with the end of the next pause, or when none comes.
    Opening,
    Measuring,
    /// It closes with the end of the next pause, or when none comes.
    Closing,
}

#[derive(Clone, Debug)]
pub(super) struct Window {
    settle: Span,
    length: Span,
    pattern: Vec<bool>,
    /// How long it waits for the end of a pause.
    patience: Span,
    stage: Stage,
    /// Something has come due: the next time that nobody stands.
    due: bool,
    /// The end of a pause was just now.
    after_pause: bool,
    look: Option<Instant>,
    reading: Reading,
}

const NOTHING: Reading = Reading {
    index: 0,
    slowed: false,
    from: Instant::ZERO,
    to: Instant::ZERO,
    completions: 0,
    pauses: 0,
    idle: 0,
    asked: Span::ZERO,
    paused: Span::ZERO,
    paused_mean: Span::ZERO,
    paused_any: Span::ZERO,
    visits: [0; TARGETS],
    cpu: [Span::ZERO; TARGETS],
    cpu_inside: [Span::ZERO; TARGETS],
    doubts: 0,
};

impl Window {
    pub(super) fn new(windows: &Windows, pause_max: Span) -> Self {
        let patience = (pause_max * 8).min(windows.length);
        Window {
            settle: windows.settle,
            length: windows.length,
            pattern: windows.pattern.clone(),
            patience,
            stage: Stage::Settling,
            due: false,
            after_pause: false,
            look: None,
            reading: NOTHING,
        }
    }

    pub(super) fn start(&mut self, now: Instant) {
        self.look = Some(now + self.settle);
    }

    /// Are there pauses in this manner of window?
    pub(super) fn pauses(&self) -> bool {
        self.pattern[self.reading.index as usize % self.pattern.len()]
    }

    /// The timer rang.
    pub(super) fn due(&mut self, now: Instant) {
        let wait = Some(now + self.patience);
        match self.stage {
            Stage::Settling if self.pauses() => (self.stage, self.look) = (Stage::Opening, wait),
            Stage::Measuring if self.pauses() => (self.stage, self.look) = (Stage::Closing, wait),
            _ => self.due = true,
        }
    }

    pub(super) fn next_look(&mut self) -> Option<Instant> {
        self.look.take()
    }

    /// Nobody stands: opens or closes, if that is due. The reading of what closed.
    pub(super) fn turn(&mut self, now: Instant) -> Option<Reading> {
        let edge = core::mem::take(&mut self.after_pause);
        let waits = matches!(self.stage, Stage::Opening | Stage::Closing);
        if !(self.due || edge && waits) {
            return None;
        }
        self.due = false;
        match self.stage {
            Stage::Settling | Stage::Opening => {
                self.open(now);
                None
            }
            Stage::Measuring | Stage::Closing => {
                let reading = self.close(now);
                let before = self.pauses();
                self.reading.index += 1;
                if self.pauses() == before {
                    self.open(now);
                } else {
                    self.stage = Stage::Settling;
                    self.look = Some(now + self.settle);
                }
                Some(reading)
            }
        }
    }

    fn open(&mut self, now: Instant) {
        let index = self.reading.index;
        self.reading = Reading { index, slowed: self.pauses(), from: now, ..NOTHING };
        self.stage = Stage::Measuring;
        self.look = Some(now + self.length);
    }

    fn close(&self, now: Instant) -> Reading {
        let mut reading = Reading { to: now, ..self.reading };
        if reading.idle * 2 > reading.pauses {
            reading.doubts |= Doubts::IDLE;
        }
        if reading.completions == 0 {
            reading.doubts |= Doubts::NOTHING;
        }
        reading
    }

    fn measures(&self) -> bool {
        matches!(self.stage, Stage::Measuring | Stage::Closing)
    }

    pub(super) fn completed(&mut self, requests: u32) {
        if self.measures() {
            self.reading.completions += u64::from(requests);
        }
    }

    pub(super) fn visited(&mut self, target: usize) {
        self.reading.visits[target] += 1;
    }

    pub(super) fn computed(&mut self, target: usize, cpu: Span, inside: bool) {
        self.reading.cpu[target] += cpu;
        if inside {
            self.reading.cpu_inside[target] += cpu;
        }
    }

    pub(super) fn doubt(&mut self, doubt: u8) {
        self.reading.doubts |= doubt;
    }

    pub(super) fn paused(&mut self, asked: Span, paused: Span, mean: Span, any: Span, idle: bool) {
        self.after_pause = true;
        let one = &mut self.reading;
        one.pauses += 1;
        one.idle += u32::from(idle);
        one.asked += asked;
        one.paused += paused;
        one.paused_mean += mean;
        one.paused_any += any;
    }
}
