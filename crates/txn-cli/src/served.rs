//! The machines that a node may run, and what each says of itself.

use crate::Fault;
use crate::config::{Config, Protocol};
use cavy_core::family::Node;
use cavy_core::family::message::{Protocol as Says, Talker};
use cavy_node::Portable;
use cavy_resp::Engine;
use cavy_txn::dast::{self, Dast};
use cavy_txn::locking::{self, Locking};
use cavy_txn::slog::{self, Slog};
use cavy_txn::{Request, Response};
use std::hash::Hash;

/// A machine that a node runs behind the front end.
pub(crate) trait Served:
    Talker<Protocol: Portable + Says<Request = Request, Response = Response>, Timer: Hash> + 'static
{
    /// Its name in files.
    const PROTOCOL: Protocol;
    /// How it is set.
    type Settings: Send + 'static;

    /// What a file says of it.
    fn settings(config: &Config) -> Result<Self::Settings, Fault>;
    /// That of one node.
    fn build(settings: Self::Settings, node: Node) -> Self;
    /// What it says of itself.
    fn standing(&self) -> Standing;
}

/// What a machine says of itself.
#[derive(Default)]
pub(crate) struct Standing {
    pub ready: bool,
    /// The view of its region, or the term of its leader: it changes when nodes fail, or are taken
    /// to have failed.
    pub view: u64,
    pub live: usize,
    /// Who leads.
    pub steward: u32,
    pub backlog: usize,
    pub coordinating: usize,
    pub stretched: bool,
    /// Members that it cannot spare and does not hear.
    pub waits_for: Vec<u32>,
    /// What the first entry waits for.
    pub blocked: Option<String>,
}

impl Served for Dast {
    const PROTOCOL: Protocol = Protocol::Dast;
    type Settings = dast::Config;

    fn settings(config: &Config) -> Result<dast::Config, Fault> {
        config.dast()
    }
    fn build(settings: dast::Config, node: Node) -> Self {
        Dast::new(settings, node, Engine::default())
    }
    fn standing(&self) -> Standing {
        Standing {
            ready: self.is_ready(),
            view: self.view().number,
            live: self.view().live.len(),
            steward: self.view().steward.0,
            backlog: self.backlog(),
            coordinating: self.coordinating(),
            stretched: self.is_stretched(),
            waits_for: self.waits_for().map(|node| node.0).collect(),
            blocked: self.blocked(),
        }
    }
}

impl Served for Locking {
    const PROTOCOL: Protocol = Protocol::TwoPhase;
    type Settings = locking::Config;

    fn settings(config: &Config) -> Result<locking::Config, Fault> {
        config.two_phase()
    }
    fn build(settings: locking::Config, node: Node) -> Self {
        Locking::new(settings, node, Engine::default())
    }
    fn standing(&self) -> Standing {
        let (view, leader) = self.term();
        let steward = leader.map_or(0, |node| node.0);
        Standing {
            ready: leader.is_some(),
            view,
            steward,
            backlog: self.backlog(),
            ..Standing::default()
        }
    }
}

impl Served for Slog {
    const PROTOCOL: Protocol = Protocol::Slog;
    type Settings = slog::Config;

    fn settings(config: &Config) -> Result<slog::Config, Fault> {
        config.slog()
    }
    fn build(settings: slog::Config, node: Node) -> Self {
        Slog::new(settings, node, Engine::default())
    }
    fn standing(&self) -> Standing {
        let (view, steward) = (self.term().unwrap_or(0), self.sequencer().0);
        let backlog = self.backlog();
        Standing { ready: true, view, steward, backlog, ..Standing::default() }
    }
}
