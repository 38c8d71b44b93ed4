//! Who sends and who receives.

use cavy_core::Span;

/// Who answers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sender {
    /// The kernel, with this congestion control.
    Kernel {
        control: &'static str,
        /// RACK and probes at the ends of flights, as Linux has them by default.
        rack: bool,
        rto_min_us: u32,
    },
    /// Ours, with this least timeout.
    Ours { floor: Span },
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Receiver {
    /// The kernel; with `quick` it acknowledges every segment at once.
    Kernel { quick: bool },
    /// Ours. Servers send in turn, or with none.
    Ours { turns: Option<Turns> },
}

/// How much the servers that send in turn may have under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turns {
    /// So many times what the port keeps.
    Told(u32),
    /// Nobody says what it keeps.
    Learned,
}

/// One kind of conversation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Way {
    /// As it is typed.
    pub name: &'static str,
    /// As it is printed.
    pub label: &'static str,
    pub sender: Sender,
    pub receiver: Receiver,
    /// It waits for timers of 200 ms, so that it takes longer to tell how fast it is.
    pub slow: bool,
}

const fn kernel(control: &'static str, rack: bool, rto_min_us: u32) -> Sender {
    Sender::Kernel { control, rack, rto_min_us }
}

/// What Linux waits for at least.
const STOCK_US: u32 = 200_000;
const PLAIN: Receiver = Receiver::Kernel { quick: false };
const QUICK: Receiver = Receiver::Kernel { quick: true };
const STOCK: Sender = kernel("reno", true, STOCK_US);
const OURS: Sender = Sender::Ours { floor: cavy_stack::FLOOR };

const fn way(
    name: &'static str,
    label: &'static str,
    sender: Sender,
    receiver: Receiver,
    slow: bool,
) -> Way {
    Way { name, label, sender, receiver, slow }
}

const fn turns(turns: Turns) -> Receiver {
    Receiver::Ours { turns: Some(turns) }
}

/// All of them.
pub const WAYS: [Way; 18] = [
    way("reno", "kernel, reno, no RACK", kernel("reno", false, STOCK_US), PLAIN, true),
    way("reno-rack", "kernel, reno", STOCK, PLAIN, true),
    way("cubic", "kernel, cubic", kernel("cubic", true, STOCK_US), PLAIN, true),
    way("cubic-no-rack", "kernel, cubic, no RACK", kernel("cubic", false, STOCK_US), PLAIN, true),
    way("bbr", "kernel, bbr", kernel("bbr", true, STOCK_US), PLAIN, true),
    way("bbr-no-rack", "kernel, bbr, no RACK", kernel("bbr", false, STOCK_US), PLAIN, true),
    way("reno-quick", "kernel, reno, quick ACKs", kernel("reno", false, STOCK_US), QUICK, true),
    way("rto-8000", "kernel, 8 ms", kernel("reno", false, 8_000), PLAIN, false),
    way("rto-4000", "kernel, 4 ms", kernel("reno", false, 4_000), PLAIN, false),
    way("rto-4000-quick", "kernel, 4 ms, quick ACKs", kernel("reno", false, 4_000), QUICK, false),
    way("ours", "ours, 500 us", OURS, PLAIN, false),
    way("ours-quick", "ours, 500 us, quick ACKs", OURS, QUICK, false),
    way("no-floor", "ours, no floor, quick ACKs", Sender::Ours { floor: Span::ZERO }, QUICK, false),
    way("turns", "kernel reno, in turn", STOCK, turns(Turns::Told(1)), false),
    way(
        "turns-cubic",
        "kernel cubic, in turn",
        kernel("cubic", true, STOCK_US),
        turns(Turns::Told(1)),
        false,
    ),
    way("learned", "kernel reno, in turn, learned", STOCK, turns(Turns::Learned), false),
    way("no-turns", "control: no turns", STOCK, Receiver::Ours { turns: None }, true),
    way("twice", "control: twice the port", STOCK, turns(Turns::Told(2)), true),
];

/// One of them by its name, which the compiler does not check.
pub fn named(name: &str) -> Option<Way> {
    WAYS.into_iter().find(|way| way.name == name)
}

/// One kind of conversation with so many servers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cell {
    pub way: Way,
    pub servers: u16,
    pub block_bytes: usize,
}

/// A block of most cells [incast 4.1].
pub const BLOCK_BYTES: usize = 1 << 20;
/// A block of those that measure latency [incast 5.7].
pub const LONG_BLOCK_BYTES: usize = 4 << 20;
/// A block that takes as long at 200 Mb/s as one of 1 MiB at 1 Gb/s, so that a timeout costs as
/// many blocks, on a port that this machine's processors are faster than. It divides by 16.
pub const SHORT_BLOCK_BYTES: usize = 209_712;

impl Cell {
    pub fn is(&self, name: &str, servers: u16) -> bool {
        let same = self.way.name == name && self.servers == servers;
        same && self.block_bytes == BLOCK_BYTES
    }

    pub fn is_long(&self) -> bool {
        self.block_bytes == LONG_BLOCK_BYTES
    }

    pub fn is_short(&self) -> bool {
        self.block_bytes == SHORT_BLOCK_BYTES
    }

    /// A name for files.
    pub fn id(&self) -> String {
        format!("{}-{}-{}", self.way.name, self.servers, self.block_bytes)
    }
}
