//! What can be chosen of an agent.

use crate::wire::Reach;
use cavy_coords::agent::AgentConfig;
use cavy_coords::start::Known;
use cavy_coords::{Config, Point};
use cavy_core::Span;
use cavy_seal::Key;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An agent's options; [`Options::new`] has the defaults of [htrae 2.10, 7.1].
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens. Port 0 takes any that is free.
    pub bind: SocketAddr,
    /// Coordinates of another space, or of a map with other parameters, do not compare.
    pub space: u16,
    /// Parameters of the model; all agents of a space share them.
    pub model: Config,
    /// Both ends learn from a probe.
    pub symmetric: bool,
    /// Time between two probes that nobody asked for; `None`: only what is asked for.
    pub every: Option<Span>,
    /// Every so many of those probes, one gossip; 0 for never.
    pub gossip_every: u32,
    /// A probe without replies is given up after so long.
    pub patience: Span,
    /// Packets of a probe, 1 to 16. Their median counts; two must come back, or the only one.
    pub packets: usize,
    /// Time between two packets of a probe.
    pub gap: Span,
    /// Peers that are known at first.
    pub seeds: Vec<SocketAddr>,
    /// What is known of the agent's place.
    pub known: Known,
    /// Its effective system; 0 when unknown or very large ([`cavy_coords::systems`]).
    pub system: u32,
    /// How it is reached.
    pub reach: Reach,
    /// File in which the coordinate survives.
    pub kept: Option<PathBuf>,
    /// The coordinate is stored after every so many updates.
    pub store_every: u32,
    /// With a key datagrams are sealed, and others dropped.
    pub key: Option<Key>,
}

impl Options {
    /// A probe every 15 s, of four packets 15 ms apart; nothing is stored, nothing sealed.
    pub fn new(bind: SocketAddr) -> Options {
        let machine = AgentConfig::new(Config::default());
        Options {
            bind,
            space: 0,
            model: Config::default(),
            symmetric: machine.symmetric,
            every: machine.every,
            gossip_every: machine.gossip_every,
            patience: machine.patience,
            packets: 4,
            gap: Span::from_ms(15),
            seeds: Vec::new(),
            known: Known::default(),
            system: 0,
            reach: Reach::default(),
            kept: None,
            store_every: machine.store_every,
            key: None,
        }
    }

    /// At this latitude and longitude in degrees; nowhere when they are none.
    pub fn at(mut self, latitude: f64, longitude: f64) -> Options {
        self.known.address = Point::from_degrees(latitude, longitude);
        self
    }

    /// With these peers to begin with.
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = SocketAddr>) -> Options {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// What the machine is given of it.
    pub(crate) fn machine(&self) -> AgentConfig {
        AgentConfig {
            space: self.space,
            symmetric: self.symmetric,
            every: self.every,
            patience: self.patience,
            gossip_every: self.gossip_every,
            store_every: self.store_every,
            ..AgentConfig::new(self.model)
        }
    }

    /// Names what cannot be: field, value, what it must be.
    pub(crate) fn wrong(&self) -> Option<String> {
        if let Err(error) = self.model.check() {
            return Some(error.to_string());
        }
        if !(1..=16).contains(&self.packets) {
            return Some(format!("`packets` is {}, but must be 1 to 16", self.packets));
        }
        let burst = self.gap.saturating_mul(self.packets as u64);
        if self.patience <= burst + Span::from_ms(100) {
            let (patience, burst) = (self.patience, burst);
            return Some(format!(
                "`patience` is {patience}, but must be 100 ms longer than a probe, {burst}"
            ));
        }
        if self.every.is_some_and(Span::is_zero) {
            return Some("`every` is 0, but must be longer".to_string());
        }
        None
    }
}
