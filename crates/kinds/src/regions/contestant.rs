//! The protocols that plans name: their settings, who stands where, and whom clients ask.

use super::plan::{
    DastMode, DastPlan, JanusPlan, OrdererPlan, ProtocolPlan, SlogPlan, TapirPlan, TwoPhasePlan,
    span,
};
use cavy_core::Span;
use cavy_core::family::Node;
use cavy_study::plan::PlanError;
use cavy_txn::dast::{Config, Mode};
use cavy_txn::{Layout, Region, Shard, janus, locking, slog, tapir};

/// A protocol in a configuration.
pub enum Contestant {
    /// DAST.
    Dast(Config),
    /// Two-phase locks and two-phase commit.
    TwoPhase(locking::Config),
    /// Janus.
    Janus(janus::Config),
    /// TAPIR.
    Tapir(tapir::Config),
    /// SLOG.
    Slog(slog::Config),
}

impl Contestant {
    /// What a plan says.
    pub fn of(plan: &ProtocolPlan, layout: Layout) -> Result<Contestant, PlanError> {
        Ok(match plan {
            ProtocolPlan::Dast(own) => Contestant::Dast(dast(own, layout)?),
            ProtocolPlan::TwoPhase(TwoPhasePlan { .. }) => {
                Contestant::TwoPhase(locking::Config::new(layout))
            }
            ProtocolPlan::Janus(own) => Contestant::Janus(janus(own, layout)?),
            ProtocolPlan::Tapir(own) => Contestant::Tapir(tapir(own, layout)),
            ProtocolPlan::Slog(own) => Contestant::Slog(slog(own, layout)?),
        })
    }

    fn layout(&self) -> Layout {
        match self {
            Contestant::Dast(config) => config.layout,
            Contestant::TwoPhase(config) => config.layout,
            Contestant::Janus(config) => config.layout,
            Contestant::Tapir(config) => config.layout,
            Contestant::Slog(config) => config.layout,
        }
    }

    /// Clients run on the node that they ask: nothing travels between.
    pub fn in_client(&self) -> bool {
        matches!(self, Contestant::Janus(_) | Contestant::Tapir(_))
    }

    /// The regions of all nodes, in order.
    pub fn sites(&self) -> Vec<Region> {
        let layout = self.layout();
        let nodes = match self {
            Contestant::Dast(_) | Contestant::Slog(_) => layout.nodes(),
            Contestant::TwoPhase(_) => layout.replica_nodes(),
            Contestant::Janus(_) | Contestant::Tapir(_) => layout.nodes_with_fronts(),
        };
        let of = |node: Node| match layout.front_of(node) {
            Some(shard) if self.in_client() => layout.region_of(shard),
            _ => layout.region_of_node(node),
        };
        (0..nodes).map(|node| of(Node(node))).collect()
    }

    /// Whom attempt number `attempt` of a client goes to, `nth` of those of its home shard.
    pub fn target(&self, home: Shard, nth: u32, attempt: u32) -> Node {
        let layout = self.layout();
        match self {
            // Any replica coordinates.
            Contestant::Dast(_) | Contestant::Slog(_) => layout.replica(home, nth + attempt),
            // The first leads until it fails.
            Contestant::TwoPhase(_) => layout.replica(home, attempt),
            // Another front of the region, should the first have failed.
            Contestant::Janus(_) => {
                let (each, nth) = (layout.shards_per_region, home.0 % layout.shards_per_region);
                layout.front(Shard(home.0 - nth + (nth + attempt % each) % each))
            }
            // A client is where its front is.
            Contestant::Tapir(_) => layout.front(home),
        }
    }

    /// The node that leads a region, or what comes nearest.
    pub fn steward(&self, region: Region) -> Node {
        let layout = self.layout();
        match self {
            Contestant::Dast(_) | Contestant::Slog(_) => {
                layout.stewards_of(region).next().unwrap_or(Node(0))
            }
            _ => layout.replicas_in(region).next().unwrap_or(Node(0)),
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
    set(&mut config.durable, own.durable);
    set(&mut config.stretch, own.stretch);
    if let Some(ms) = own.sync_ms {
        config.sync = span("protocols.sync_ms", ms)?;
        if config.sync < Span::from_us(10) || config.sync > Span::from_ms(90) {
            return Err(PlanError::field("protocols.sync_ms", ms, "from 0.01 to 90")
                .hint("a node that is silent for 100 ms is taken for failed"));
        }
    }
    config.lookahead = own.lookahead.or(config.lookahead);
    if let Some(ms) = own.est_ms {
        config.est = span("protocols.est_ms", ms)?;
    }
    Ok(config)
}

fn janus(own: &JanusPlan, layout: Layout) -> Result<janus::Config, PlanError> {
    let mut config = janus::Config::new(layout);
    if let Some(ms) = own.fake_inquire_ms {
        config.fake_inquire = Some(span("protocols.fake_inquire_ms", ms)?);
    }
    Ok(config)
}

fn tapir(own: &TapirPlan, layout: Layout) -> tapir::Config {
    let base = match own.artifact {
        true => tapir::Config::artifact(layout),
        false => tapir::Config::new(layout),
    };
    tapir::Config { strict: own.strict, ..base }
}

fn slog(own: &SlogPlan, layout: Layout) -> Result<slog::Config, PlanError> {
    let mut config = match own.artifact {
        true => slog::Config::artifact(layout),
        false => slog::Config::new(layout),
    };
    if own.orderer == OrdererPlan::FirstRegion {
        config.orderer = slog::Orderer::FirstRegion;
    } else if layout.regions < 3 {
        let must = "first_region with fewer than 3 regions";
        return Err(PlanError::field("protocols.orderer", "regions", must)
            .hint("orderers in three regions need three regions"));
    }
    if let Some(ms) = own.batch_ms {
        config.batch = span("protocols.batch_ms", ms)?;
        if config.batch.is_zero() {
            return Err(PlanError::field("protocols.batch_ms", ms, "more than 0"));
        }
    }
    Ok(config)
}
