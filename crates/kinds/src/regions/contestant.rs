//! The protocols that plans name: their settings, who stands where, and whom clients ask.

use super::plan::{DastMode, DastPlan, ProtocolPlan, TwoPhasePlan};
use super::scenario::span;
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_study::plan::PlanError;
use cavy_txn::dast::{Config, Mode};
use cavy_txn::{Layout, Region, Shard, locking};

/// A protocol in a configuration.
pub enum Contestant {
    /// DAST.
    Dast(Config),
    /// Two-phase locks and two-phase commit.
    TwoPhase(locking::Config),
}

impl Contestant {
    /// What a plan says.
    pub fn of(plan: &ProtocolPlan, layout: Layout) -> Result<Contestant, PlanError> {
        Ok(match plan {
            ProtocolPlan::Dast(own) => Contestant::Dast(dast(own, layout)?),
            ProtocolPlan::TwoPhase(TwoPhasePlan { .. }) => {
                Contestant::TwoPhase(locking::Config::new(layout))
            }
        })
    }

    fn layout(&self) -> Layout {
        match self {
            Contestant::Dast(config) => config.layout,
            Contestant::TwoPhase(config) => config.layout,
        }
    }

    /// The regions of all nodes, in order.
    pub fn sites(&self) -> Vec<Region> {
        let layout = self.layout();
        let nodes = match self {
            Contestant::Dast(_) => layout.nodes(),
            Contestant::TwoPhase(_) => layout.replica_nodes(),
        };
        (0..nodes).map(|node| layout.region_of_node(Node(node))).collect()
    }

    /// Whom attempt number `attempt` of a client goes to, `nth` of those of its home shard.
    pub fn target(&self, home: Shard, nth: u32, attempt: u32) -> Node {
        let layout = self.layout();
        match self {
            // Any replica coordinates.
            Contestant::Dast(_) => layout.replica(home, nth + attempt),
            // The first leads until it fails.
            Contestant::TwoPhase(_) => layout.replica(home, attempt),
        }
    }

    /// The node that leads a region, or what comes nearest.
    pub fn steward(&self, region: Region) -> Node {
        let layout = self.layout();
        match self {
            Contestant::Dast(_) => layout.stewards_of(region).next().unwrap_or(Node(0)),
            Contestant::TwoPhase(_) => layout.replicas_in(region).next().unwrap_or(Node(0)),
        }
    }
}

fn dast(own: &DastPlan, layout: Layout) -> Result<Config, PlanError> {
    let mode = match own.mode {
        DastMode::Precise => Mode::Precise,
        DastMode::Paper => Mode::Paper,
        DastMode::Artifact => Mode::Artifact,
    };
    let mut config = Config::new(layout, mode);
    // Clients give up long before: what is remembered bounds the memory of long runs.
    config.remember = Span::from_ms(10_000);
    let set = |to: &mut bool, value: Option<bool>| *to = value.unwrap_or(*to);
    set(&mut config.decision_log, own.decision_log);
    set(&mut config.follower_rule, own.follower_rule);
    set(&mut config.commit_via_steward, own.commit_via_steward);
    set(&mut config.stretch, own.stretch);
    if let Some(ms) = own.sync_ms {
        config.sync = span("protocols.sync_ms", ms)?;
        if config.sync < Span::from_us(10) || config.sync > Span::from_ms(90) {
            return Err(PlanError::field("protocols.sync_ms", ms, "from 0.01 to 90")
                .hint("a node that is silent for 100 ms is taken for failed"));
        }
    }
    if let Some(ms) = own.est_ms {
        config.est = span("protocols.est_ms", ms)?;
    }
    Ok(config)
}
