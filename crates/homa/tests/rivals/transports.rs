//! The transports under test, with the queues they are made for.

use cavy_core::family::packet::{Effect, Extent, Input, Message, Seen};
use cavy_core::laws::packet::{Ledger, Network, Queue, Stage};
use cavy_core::{Instant, Machine, Span, Transmit};
use cavy_homa::rivals::{Timer, Why, blast, dctcp, extent, ndp, pfabric, phost, pias};

/// What the tests need of a transport.
pub trait Rival:
    Transmit + Machine<Input = Input<Self::Header>, Effect = Effect<Why>, Timer = Timer>
{
    fn remembered(&self) -> usize;
}

/// Hosts with one transport around a switch at 10 Gb/s.
pub type Star<M> = Network<M, Ledger<Why>>;

/// So many hosts, whose invariants are checked after each step.
pub fn star<M: Rival>(hosts: u32, queue: Queue, seed: u64, make: impl Fn() -> M) -> Star<M> {
    let machines = (0..hosts).map(|_| make()).collect();
    let mut star = Network::new(machines, Ledger::default(), seed);
    star.application.releases_prove = true;
    star.queue = queue;
    star
}

/// Every message was delivered once and let go, and nobody remembers anything.
pub fn assert_all_delivered<M: Rival>(star: &Star<M>, context: &str) {
    for (name, fate) in &star.application.fates {
        let ends = (fate.delivered, fate.released, fate.failed_at_sender);
        assert_eq!(ends, (1, 1, 0), "{context}: {name:?} {fate:?}");
    }
    assert_nothing_remembered(star, context);
}

pub fn assert_nothing_remembered<M: Rival>(star: &Star<M>, context: &str) {
    for (host, machine) in star.machines().enumerate() {
        let remembered = machine.remembered();
        assert_eq!(remembered, 0, "{context}: host {host} remembers {remembered}");
    }
}

/// One machine, and everybody else by hand.
pub fn stage<M: Rival>(machine: M) -> Stage<M> {
    let mut stage = Stage::new(machine, Instant::ZERO, 1);
    stage.room_bytes = 1_500;
    stage
}

/// What comes in on a [`stage`], in the words of the rivals.
pub trait Hears<H> {
    /// Packet `number` of a message of some length.
    fn data(&mut self, from: u32, message: (u64, u32), number: u32, header: H);
    /// A packet without payload, about the packet at `offset_bytes`.
    fn control(&mut self, from: u32, name: u64, offset_bytes: u32, header: H);
}

impl<M: Rival> Hears<M::Header> for Stage<M> {
    fn data(&mut self, from: u32, (name, length): (u64, u32), number: u32, header: M::Header) {
        self.receive(from, header, extent(Message(name), length, number), Seen::default());
    }
    fn control(&mut self, from: u32, name: u64, offset_bytes: u32, header: M::Header) {
        let payload = Extent { message: Message(name), offset_bytes, length_bytes: 0 };
        self.receive(from, header, payload, Seen::default());
    }
}

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
    let config = blast::Config { order, silence, patience: PATIENCE, ..blast::Config::default() };
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
