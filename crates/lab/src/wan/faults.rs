//! What goes wrong in a run, by rule, in the words of the packet world.
//!
//! A rule about messages says which, when, and what happens to them; the first that matches
//! decides, and no other is asked. What a rule does to a message on a channel is what TCP makes of
//! it: a lost one comes a round trip later, one sent into a cut comes when the cut ends, a copy is
//! not noticed.

use super::Site;
use crate::cpu::Speed;
use crate::net::{Outage, What};
use cavy_core::family::Node;
use cavy_core::family::message::Via;
use cavy_core::{Instant, Ratio};

/// Everything that goes wrong in one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Faults {
    /// About messages; the first match decides.
    pub rules: Vec<Rule>,
    /// About nodes. A crashed node comes back with what it had stored, a wiped one with nothing;
    /// one whose outage ends [`Instant::NEVER`] does not come back.
    pub outages: Vec<Outage>,
    /// About processors.
    pub slow: Vec<Slow>,
    /// About wall clocks.
    pub steps: Vec<ClockStep>,
}

/// The processors of a node work at another speed for a while: work under way too. What its thread
/// takes stays as it is. Of two such at a time the slower one counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slow {
    /// Whose.
    pub node: Node,
    /// From when.
    pub from: Instant,
    /// Until when; later than `from`.
    pub until: Instant,
    /// How fast.
    pub speed: Speed,
}

impl Faults {
    /// Every message is lost with this probability.
    pub fn loss(ratio: Ratio) -> Faults {
        let rule = Rule { which: Which::any(), what: What::Lose(ratio) };
        Faults { rules: vec![rule], ..Faults::default() }
    }

    /// Nothing crosses the border of `site` between two times, in either direction.
    pub fn cut_off(&mut self, site: Site, since: Instant, until: Instant) {
        let (inside, outside) = (End::At(site), End::NotAt(site));
        for (from, to) in [(inside, outside), (outside, inside)] {
            let which = Which { since, until, ..Which::between(from, to) };
            self.rules.push(Rule { which, what: What::Down });
        }
    }

    /// How fast the processors of `node` are at `now`.
    pub(super) fn speed(&self, node: Node, now: Instant) -> Speed {
        let here = self.slow.iter().filter(|one| one.node == node);
        let now = here.filter(|one| (one.from..one.until).contains(&now));
        now.map(|one| one.speed).min().unwrap_or(Speed::ONE)
    }

    /// Nothing goes wrong.
    pub fn is_empty(&self) -> bool {
        let nodes = self.outages.is_empty() && self.slow.is_empty();
        self.rules.is_empty() && nodes && self.steps.is_empty()
    }
}

/// One rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    /// Which messages.
    pub which: Which,
    /// What happens to them.
    pub what: What,
}

/// One end of a message's way. A client counts as its site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Anybody.
    Any,
    /// One node.
    Node(Node),
    /// All nodes and clients of a site.
    At(Site),
    /// All others.
    NotAt(Site),
}

impl End {
    fn is(self, node: Option<Node>, site: Site) -> bool {
        match self {
            End::Any => true,
            End::Node(one) => node == Some(one),
            End::At(one) => site == one,
            End::NotAt(one) => site != one,
        }
    }
}

/// Which messages, when. Everything given must match.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Which {
    /// From here.
    pub from: End,
    /// To here.
    pub to: End,
    /// How they travel; calls of clients and answers to them are neither.
    pub via: Option<Via>,
    /// Sent at or after this time.
    pub since: Instant,
    /// Sent before this time.
    pub until: Instant,
}

impl Which {
    /// Every message at any time.
    pub fn any() -> Which {
        Which::between(End::Any, End::Any)
    }

    /// Messages from here to there at any time.
    pub fn between(from: End, to: End) -> Which {
        Which { from, to, via: None, since: Instant::ZERO, until: Instant::NEVER }
    }

    pub(super) fn matches(&self, now: u64, way: &Way) -> bool {
        self.since.as_ns() <= now
            && now < self.until.as_ns()
            && self.via.is_none_or(|via| way.via == Some(via))
            && self.from.is(way.from, way.from_site)
            && self.to.is(way.to, way.to_site)
    }
}

/// Who sends what to whom; no node: a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub from: Option<Node>,
    pub from_site: Site,
    pub to: Option<Node>,
    pub to_site: Site,
    pub via: Option<Via>,
}

/// A wall clock that is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockStep {
    /// Whose.
    pub node: Node,
    /// When, in true time.
    pub at: Instant,
    /// By how many nanoseconds.
    pub by_ns: i64,
}
