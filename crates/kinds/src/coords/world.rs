//! Machines, what is said of them, and how long round trips between them take.

use super::players::Players;
use cavy_coords::Point;
use std::borrow::Cow;

/// One machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub place: Option<Point>,
    /// Where a database says that its address is: what predictors are given.
    pub said: Option<Point>,
    /// Number of its autonomous system; 0 when not known.
    pub system: u32,
}

/// Round trips between all machines, both directions averaged.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    count: u32,
    /// By row; below zero where nothing was measured.
    rtt_ms: Vec<f64>,
}

impl Matrix {
    /// Nothing measured between `count` machines.
    pub fn empty(count: u32) -> Matrix {
        let cells = count as usize * count as usize;
        Matrix { count, rtt_ms: vec![-1.0; cells] }
    }

    /// Sets both directions.
    pub fn set(&mut self, a: u32, b: u32, rtt_ms: f64) {
        let count = self.count as usize;
        for (from, to) in [(a, b), (b, a)] {
            self.rtt_ms[from as usize * count + to as usize] = rtt_ms;
        }
    }

    /// The round trip between two machines, milliseconds.
    #[inline]
    pub fn get(&self, a: u32, b: u32) -> Option<f64> {
        let value = self.rtt_ms[a as usize * self.count as usize + b as usize];
        (a != b && value > 0.0).then_some(value)
    }
}

/// Who measured whom, as a file says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recorded {
    /// Who measured.
    pub from: u32,
    /// Whom.
    pub to: u32,
    /// The round trip.
    pub rtt_ms: f64,
    /// When, seconds after the first.
    pub time_s: f64,
}

/// Round trips between machines.
#[derive(Clone, Debug)]
pub enum Truth {
    /// Each pair has one that does not change; probes are drawn.
    Matrix(Matrix),
    /// They were measured in this order; of each pair the median counts.
    Recorded(Matrix, Vec<Recorded>),
    /// Players that were made up, and their sessions.
    Players(Box<Players>),
}

/// Machines and the round trips between them.
#[derive(Clone, Debug)]
pub struct World {
    /// The machines; none where players are made up, who say themselves what they are.
    pub machines: Vec<Machine>,
    /// Round trips.
    pub truth: Truth,
    /// Whom to credit, where results are shown.
    pub credits: &'static [&'static str],
    /// What is to be said of them beside results; empty for nothing.
    pub note: String,
}

impl World {
    /// Machines.
    pub fn count(&self) -> u32 {
        match &self.truth {
            Truth::Players(players) => players.count(),
            _ => self.machines.len() as u32,
        }
    }

    /// All machines, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = Cow<'_, Machine>> {
        (0..self.count()).map(|number| match &self.truth {
            Truth::Players(players) => Cow::Owned(players.machine(number)),
            _ => Cow::Borrowed(&self.machines[number as usize]),
        })
    }

    /// How long a round trip between two machines takes, milliseconds, without what varies from
    /// one probe to the next; the same from either end. `None` where nobody knows.
    #[inline]
    pub fn rtt_ms(&self, a: u32, b: u32) -> Option<f64> {
        match &self.truth {
            Truth::Matrix(matrix) | Truth::Recorded(matrix, _) => matrix.get(a, b),
            Truth::Players(players) => players.rtt_ms(a, b),
        }
    }

    /// Pairs of machines.
    pub fn pairs(&self) -> u64 {
        let count = u64::from(self.count());
        count * count.saturating_sub(1) / 2
    }
}
