//! The transports under test, with the queues they are made for.

use crate::network::{Queue, Rival};
use cavy_core::Span;
use cavy_homa::rivals::{blast, dctcp, ndp, pfabric, phost, pias};

macro_rules! rivals {
    ($($rival:ty),*) => {
        $(impl Rival for $rival {
            fn remembered(&self) -> usize {
                <$rival>::remembered(self)
            }
        })*
    };
}

rivals!(blast::Blast, dctcp::Dctcp, ndp::Ndp, pfabric::PFabric, phost::PHost, pias::Pias);

pub const FIFO: Queue = Queue::Levels { limit: 240, mark: 65 };
pub const UNLIMITED: Queue = Queue::Levels { limit: usize::MAX, mark: usize::MAX };
pub const RANK: Queue = Queue::Rank { limit: 24 };
pub const TRIM: Queue = Queue::Trim { limit: 8 };
pub const SHORT: Queue = Queue::Levels { limit: 24, mark: usize::MAX };

/// Long enough that a quarter of all packets lost never looks like a dead peer.
pub const PATIENCE: Span = Span::from_ms(1_000);

pub fn blast(order: blast::Order) -> blast::Blast {
    let silence = Span::from_us(200);
    let config = blast::Config { order, silence, patience: PATIENCE };
    blast::Blast::new(config).expect("a legal configuration")
}

pub fn pfabric() -> pfabric::PFabric {
    let config = pfabric::Config { patience: PATIENCE, ..pfabric::Config::default() };
    pfabric::PFabric::new(config).expect("a legal configuration")
}

pub fn dctcp_config() -> dctcp::Config {
    let (rto_min, rto_max) = (Span::from_ms(1), Span::from_ms(8));
    dctcp::Config { rto_min, rto_max, patience: PATIENCE, ..dctcp::Config::default() }
}

pub fn dctcp() -> dctcp::Dctcp {
    dctcp::Dctcp::new(dctcp_config()).expect("a legal configuration")
}

pub fn pias() -> pias::Pias {
    let dctcp = dctcp::Config { initial_window_packets: 70, ..dctcp_config() };
    pias::Pias::new(pias::Config { dctcp, ..pias::Config::default() }).expect("legal")
}

pub fn phost() -> phost::PHost {
    let config = phost::Config { patience: PATIENCE, ..phost::Config::default() };
    phost::PHost::new(config).expect("a legal configuration")
}

pub fn ndp() -> ndp::Ndp {
    let timeout = Span::from_ms(1);
    let config = ndp::Config { timeout, patience: PATIENCE, ..ndp::Config::default() };
    ndp::Ndp::new(config).expect("a legal configuration")
}

/// Runs `$body` for each transport: `$make` makes one, `$queue` is its queue, `$name` its name.
#[macro_export]
macro_rules! each_transport {
    (|$name:ident, $queue:ident, $make:ident| $body:block) => {{
        use $crate::transports as t;
        use cavy_homa::rivals::blast::Order;
        $crate::each_transport!(@ $name $queue $make $body
            "blast" (t::UNLIMITED) (|| t::blast(Order::Submission)),
            "SRPT blast" (t::UNLIMITED) (|| t::blast(Order::Shortest)),
            "pFabric" (t::RANK) (t::pfabric),
            "DCTCP" (t::FIFO) (t::dctcp),
            "PIAS" (t::FIFO) (t::pias),
            "pHost" (t::SHORT) (t::phost),
            "NDP" (t::TRIM) (t::ndp),
        );
    }};
    (@ $name:ident $queue:ident $make:ident $body:block) => {};
    (@ $name:ident $queue:ident $make:ident $body:block
        $text:literal ($its:expr) ($new:expr), $($rest:tt)*) => {
        {
            let ($name, $queue, $make) = ($text, $its, $new);
            $body
        }
        $crate::each_transport!(@ $name $queue $make $body $($rest)*);
    };
}
