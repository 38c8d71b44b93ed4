//! What one run is made of, besides machines and clients.

use super::Site;
use super::clock::Clock;
use super::faults::{End, Faults};
use super::link::{Link, Order};
use crate::net::{Rate, What};
use cavy_core::family::Node;
use cavy_core::{Instant, Span};
use std::fmt;

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How many sites there are.
    pub sites: u16,
    /// From site `a` to site `b`: entry `a * sites + b`.
    pub links: Vec<Link>,
    /// The site of each node.
    pub nodes: Vec<Site>,
    /// Clocks by node; nodes beyond the end have exact ones.
    pub clocks: Vec<Clock>,
    /// Whether channels keep order.
    pub order: Order,
    /// The rate of each node's card, in either direction; `None`: no limit.
    pub card: Option<Rate>,
    /// A channel whose message has waited so long for a cut to end breaks.
    pub patience: Span,
    /// What storing takes.
    pub disk: Disk,
    /// What goes wrong.
    pub faults: Faults,
    /// Root of all random streams of the world and the machines. Clients have their own.
    pub seed: u64,
    /// Shuffle the order of simultaneous events by this seed.
    pub shuffle_ties: Option<u64>,
    /// No request is sent for the first time from this time on.
    pub duration: Span,
    /// The run ends at most so long after `duration`.
    pub drain: Span,
    /// How long the run goes on when everything has been answered, so that machines settle.
    pub linger: Span,
    /// Call each machine's own check after each step, and fold all that it says into the digest.
    pub check: bool,
}

/// What storing records takes: those that were appended while the disk was busy are stored
/// together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disk {
    /// What it takes to store what is there.
    pub sync: Span,
    /// And up to so much more, evenly.
    pub spread: Span,
}

impl Setup {
    /// `regions` sites, `inside` one way within each and `across` between any two, with
    /// `per_region` nodes each: node `n` is at site `n / per_region`. Nothing goes wrong.
    pub fn regions(regions: u16, per_region: u32, inside: Span, across: Span) -> Setup {
        let pairs = (0..regions).flat_map(|a| (0..regions).map(move |b| (a, b)));
        let links = pairs.map(|(a, b)| Link::of(if a == b { inside } else { across })).collect();
        let sites = (0..regions).flat_map(|site| (0..per_region).map(move |_| Site(site)));
        Setup::of(regions, links, sites.collect())
    }

    /// Nodes at sites, with these links. Nothing goes wrong; a second long, and a second to drain.
    pub fn of(sites: u16, links: Vec<Link>, nodes: Vec<Site>) -> Setup {
        Setup {
            sites,
            links,
            nodes,
            clocks: Vec::new(),
            order: Order::PerPair,
            card: None,
            patience: Span::from_ms(30_000),
            disk: Disk::default(),
            faults: Faults::default(),
            seed: 0,
            shuffle_ties: None,
            duration: Span::from_ms(1_000),
            drain: Span::from_ms(1_000),
            linger: Span::ZERO,
            check: false,
        }
    }

    /// The link from one site to another.
    #[inline]
    pub fn link(&self, from: Site, to: Site) -> &Link {
        &self.links[usize::from(from.0) * usize::from(self.sites) + usize::from(to.0)]
    }

    /// Whether the values are in the ranges that the fields document.
    pub fn check(&self) -> Result<(), SetupError> {
        let sites = usize::from(self.sites);
        if sites == 0 || self.links.len() != sites * sites {
            return Err(SetupError::Links { sites: self.sites, links: self.links.len() });
        }
        let nodes = self.nodes.len() as u32;
        if self.nodes.is_empty() || nodes > 1 << 20 {
            return Err(SetupError::Nodes { nodes: self.nodes.len() });
        }
        let lost = |site: &Site| site.0 >= self.sites;
        if let Some(node) = self.nodes.iter().position(lost) {
            return Err(SetupError::Site { node: node as u32, site: self.nodes[node].0 });
        }
        let total = self.duration + self.drain + self.linger;
        if total > Span::from_ms(1_000 * 3_600 * 24 * 100) {
            return Err(SetupError::TooLong { total });
        }
        if let Some(node) = self.clocks.iter().position(|c| c.drift_ppb.abs() >= 100_000_000) {
            return Err(SetupError::Drift { node: node as u32 });
        }
        for outage in &self.faults.outages {
            if outage.host.0 >= nodes || outage.from >= outage.until {
                return Err(SetupError::Outage { node: outage.host.0, nodes });
            }
        }
        for slow in &self.faults.slow {
            if slow.node.0 >= nodes || slow.from >= slow.until {
                return Err(SetupError::Slow { node: slow.node.0, nodes });
            }
        }
        let late = |at: Instant| at.as_ns() >= total.as_ns();
        if let Some(step) = self.faults.steps.iter().find(|s| s.node.0 >= nodes || late(s.at)) {
            return Err(SetupError::Step { node: step.node.0, nodes });
        }
        for (rule, faults) in self.faults.rules.iter().enumerate() {
            if matches!(faults.what, What::LoseNth(0)) {
                return Err(SetupError::NthZero { rule });
            }
            for end in [faults.which.from, faults.which.to] {
                let absent = match end {
                    End::Any => false,
                    End::Node(Node(node)) => node >= nodes,
                    End::At(site) | End::NotAt(site) => lost(&site),
                };
                if absent {
                    return Err(SetupError::NoEnd { rule });
                }
            }
        }
        Ok(())
    }
}

/// Why there can be no such run.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// The matrix is not square, or empty.
    Links {
        /// How many sites.
        sites: u16,
        /// How many links.
        links: usize,
    },
    /// No node, or more than 2^20.
    Nodes {
        /// How many.
        nodes: usize,
    },
    /// A node is nowhere.
    Site {
        /// Which.
        node: u32,
        /// Its site.
        site: u16,
    },
    /// Longer than a hundred days.
    TooLong {
        /// All spans together.
        total: Span,
    },
    /// A clock that runs wrong by a tenth or more.
    Drift {
        /// Whose.
        node: u32,
    },
    /// An outage of a node that is not there, or that ends before it begins.
    Outage {
        /// Whose.
        node: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// Slow processors of a node that is not there, or that are fast again before they are slow.
    Slow {
        /// Whose.
        node: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// A clock step of a node that is not there, or after the end.
    Step {
        /// Whose.
        node: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// The zeroth match of a rule.
    NthZero {
        /// Which rule, from 0.
        rule: usize,
    },
    /// A rule is about a node or a site that is not there.
    NoEnd {
        /// Which rule, from 0.
        rule: usize,
    },
}

impl std::error::Error for SetupError {}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SetupError::Links { sites, links } => {
                write!(f, "{sites} sites need {sites} x {sites} links, not {links}")
            }
            SetupError::Nodes { nodes } => {
                write!(f, "a run has from 1 to {} nodes, not {nodes}", 1 << 20)
            }
            SetupError::Site { node, site } => write!(f, "node {node} is at site {site}, nowhere"),
            SetupError::TooLong { total } => {
                write!(f, "a run of {total} is too long: at most 100 days")
            }
            SetupError::Drift { node } => {
                write!(f, "the clock of node {node} drifts by a tenth or more")
            }
            SetupError::Outage { node, nodes } => {
                write!(f, "an outage of node {node} of {nodes} must end after it begins")
            }
            SetupError::Slow { node, nodes } => {
                write!(f, "node {node} of {nodes} must be slow before it is fast again")
            }
            SetupError::Step { node, nodes } => {
                write!(f, "a clock step of node {node} of {nodes} must be within the run")
            }
            SetupError::NthZero { rule } => {
                write!(f, "rule {rule} loses match number 0; they are counted from 1")
            }
            SetupError::NoEnd { rule } => {
                write!(f, "rule {rule} is about a node or a site that is not there")
            }
        }
    }
}
