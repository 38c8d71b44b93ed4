//! What goes wrong in a run, by rule.
//!
//! A rule about packets says which packets, when, and what happens to them; the first rule that
//! matches a packet on a link decides, and no other is asked. Random rules draw from a stream of
//! their own, so a run without them is not shifted.

use super::clock::{Ps, begin, ps};
use super::topology::Place;
use cavy_core::family::Node;
use cavy_core::{Instant, Ratio, Span, Stream};

/// Everything that goes wrong in one run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Faults {
    /// About packets; the first match decides.
    pub rules: Vec<Rule>,
    /// About hosts.
    pub outages: Vec<Outage>,
}

impl Faults {
    /// Every packet is lost with this probability, once on its way: when it leaves its sender's
    /// card.
    pub fn loss(ratio: Ratio) -> Faults {
        let rule = Rule { which: Which::any(), what: What::Lose(ratio) };
        Faults { rules: vec![rule], outages: Vec::new() }
    }

    /// Nothing goes wrong.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.outages.is_empty()
    }
}

/// One rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    /// Which packets.
    pub which: Which,
    /// What happens to them.
    pub what: What,
}

/// Which packets, on which link, when. Everything given must match.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Which {
    /// On the link from here to there. `None`: on the link from the sender's card, so once a
    /// packet.
    pub link: Option<(Place, Place)>,
    /// From this host.
    pub from: Option<Node>,
    /// To this host.
    pub to: Option<Node>,
    /// With payload (`true`) or without (`false`).
    pub with_payload: Option<bool>,
    /// Whose sending begins at or after this time.
    pub since: Instant,
    /// Whose sending begins before this time.
    pub until: Instant,
}

impl Which {
    /// Every packet, on its first link, at any time.
    pub fn any() -> Which {
        Which {
            link: None,
            from: None,
            to: None,
            with_payload: None,
            since: Instant::ZERO,
            until: Instant::NEVER,
        }
    }

    /// Every packet on the link between two places, in either direction, between two times: two
    /// rules with [`What::Down`] make a cut cable.
    pub fn link(from: Place, to: Place, since: Instant, until: Instant) -> Which {
        Which { link: Some((from, to)), since, until, ..Which::any() }
    }

    pub(super) fn matches(&self, now: Ps, from: Node, to: Node, bare: bool) -> bool {
        self.from.is_none_or(|want| want == from)
            && self.to.is_none_or(|want| want == to)
            && self.with_payload.is_none_or(|want| want != bare)
            && begin(self.since) <= now
            && now < begin(self.until)
    }
}

/// What happens to a packet that a rule matches.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What {
    /// Lost with this probability.
    Lose(Ratio),
    /// The n-th match is lost, counted from 1; the others pass.
    LoseNth(u64),
    /// Lost: the link is down.
    Down,
    /// With this probability a copy follows.
    Duplicate {
        /// How often.
        ratio: Ratio,
        /// How much later the copy arrives.
        after: Span,
    },
    /// With this probability it arrives later, so that others overtake it.
    Delay {
        /// How often.
        ratio: Ratio,
        /// How much later.
        by: Span,
    },
    /// The link loses packets and holds them up.
    Rough(Rough),
}

/// A link of a wide area or of radio ([incast 4.3]): what is held up holds up all that follows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rough {
    /// Lost with this probability.
    pub lost: Ratio,
    /// Each packet is later by any time up to this.
    pub jitter: Span,
    /// With this probability it is later by a spike as well.
    pub spiked: Ratio,
    /// The shortest spike.
    pub spike_least: Span,
    /// The longest.
    pub spike_most: Span,
    /// With this probability it is late alone, so that others overtake it.
    pub overtaken: Ratio,
    /// By so much.
    pub overtaken_by: Span,
}

impl Rough {
    /// A link that changes nothing.
    pub const NOTHING: Rough = Rough {
        lost: Ratio::ZERO,
        jitter: Span::ZERO,
        spiked: Ratio::ZERO,
        spike_least: Span::ZERO,
        spike_most: Span::ZERO,
        overtaken: Ratio::ZERO,
        overtaken_by: Span::ZERO,
    };

    /// What happens to one packet.
    pub(super) fn fate(&self, rng: &mut Stream) -> Fate {
        if rng.chance(self.lost) {
            return Fate::Lost;
        }
        let mut by = rng.below(ps(self.jitter) + 1);
        if rng.chance(self.spiked) {
            let (least, most) = (ps(self.spike_least), ps(self.spike_most));
            by += least + rng.below(most.saturating_sub(least) + 1);
        }
        // Where nothing is overtaken nothing is drawn, so that such links do what they did before
        // there was overtaking.
        let is_overtaken = self.overtaken != Ratio::ZERO && rng.chance(self.overtaken);
        let alone = if is_overtaken { ps(self.overtaken_by) } else { 0 };
        Fate::Held { by, alone }
    }
}

/// A host that stops for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// Which host.
    pub host: Node,
    /// From when.
    pub from: Instant,
    /// Until when; later than `from`.
    pub until: Instant,
    /// How.
    pub kind: OutageKind,
}

/// How a host stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutageKind {
    /// The machine is dropped and made anew at the end. Packets that come meanwhile are lost, and
    /// messages of its applications too, before and meanwhile.
    Crash,
    /// A crash that takes what the host had stored as well. Hosts of networks store nothing: there
    /// it is a crash.
    Wipe,
    /// Nothing runs, as when a virtual machine is frozen: packets and messages wait, timers come
    /// late, the clock has jumped `[homa 2.14]`.
    Freeze,
}

/// What is to be done with one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Pass,
    Lost,
    Copied {
        after: Ps,
    },
    Late {
        by: Ps,
    },
    /// As late, and whatever follows on this link stays behind it; then later alone.
    Held {
        by: Ps,
        alone: Ps,
    },
}
