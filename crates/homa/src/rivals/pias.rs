//! PIAS: DCTCP whose packets sink through eight strict levels as a message sends more
//! ([homa 3.7]).
//!
//! The level follows the bytes the message sent before the packet; a retransmission keeps the level
//! of its bytes. A node sends in the order of levels too, one packet of each message in turn within
//! a level. Acknowledgements go at the highest level.

use super::dctcp::{self, Dctcp};
use super::endpoint::{ConfigError, EndCx, LEVEL_TOP, Timer, Why, require};
use super::selective::Header;
pub use super::thresholds::Thresholds;
use cavy_core::family::packet::{Effect, Input};
use cavy_core::{Machine, Packet, Room, Span, Transmit};

/// Parameters of PIAS.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Those of the transport below. Its `level` is not used.
    pub dctcp: dctcp::Config,
    /// Where messages sink.
    pub thresholds: Thresholds,
}

impl Default for Config {
    /// As the scripts of the source: initial window 70, least timeout 2 ms, web search at 80 %.
    fn default() -> Self {
        let dctcp = dctcp::Config {
            initial_window_packets: 70,
            rto_min: Span::from_ms(2),
            level: LEVEL_TOP,
            ..dctcp::Config::default()
        };
        Config { dctcp, thresholds: Thresholds::WEB_SEARCH_80 }
    }
}

/// The PIAS of one node.
#[derive(Clone, Debug)]
pub struct Pias {
    below: Dctcp,
}

impl Pias {
    /// A node without messages.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let Thresholds(all) = config.thresholds;
        let mut last = 0;
        for threshold in all {
            require("thresholds", f64::from(threshold), threshold >= last, "ascending")?;
            last = threshold;
        }
        let dctcp = dctcp::Config { level: LEVEL_TOP, ..config.dctcp };
        Ok(Pias { below: Dctcp::sinking(dctcp, config.thresholds)? })
    }

    /// The transport below.
    pub fn dctcp(&self) -> &Dctcp {
        &self.below
    }

    /// Messages under way and what is remembered of others.
    pub fn remembered(&self) -> usize {
        self.below.remembered()
    }
}

impl Machine for Pias {
    type Input = Input<Header>;
    type Effect = Effect<Why>;
    type Timer = Timer;

    fn effects_max(&self) -> usize {
        self.below.effects_max()
    }
    fn start(&mut self, cx: &mut EndCx<'_>) {
        self.below.start(cx);
    }
    fn handle(&mut self, input: Input<Header>, cx: &mut EndCx<'_>) {
        self.below.handle(input, cx);
    }
    fn expire(&mut self, timer: Timer, cx: &mut EndCx<'_>) {
        self.below.expire(timer, cx);
    }
    fn check(&self) {
        self.below.check();
    }
}

impl Transmit for Pias {
    type Header = Header;

    fn pull(&mut self, room: Room, cx: &mut EndCx<'_>) -> Option<Packet<Header>> {
        self.below.pull(room, cx)
    }
}
