//! The transports Homa is compared with, each from its own specification ([homa 3.3] to [homa
//! 3.8]).
//!
//! **Promise.** Each is a machine of the packet family: a message that is submitted is delivered
//! exactly once, or reported failed when the other side stays silent, whatever is lost, copied or
//! reordered on the way. None is weaker than its source; where the source leaves a gap (what
//! repairs a lost control packet), the file of the rival says what fills it.
//!
//! **One-way.** The rivals move messages and know nothing of exchanges: a question and its answer
//! are two messages. `Cancel` takes back a message this node sends, and tells the receiver once.
//!
//! **On the wire.** A full packet carries 1460 bytes and one without payload is 40 bytes long with
//! IP, as in the simulators the rivals come from: 28 bytes of IP and UDP below, 12 here. The names
//! of messages stand for the ports of TCP and need no further bytes. NDP's trimmed packets and
//! control packets have 64 bytes on the wire in its source; what they have here is up to the world,
//! which adds Ethernet to the same 40 bytes.
//!
//! **Not here.** Queues of switches: each rival's file says what network it is made for, and the
//! world provides it. Homa itself, and Basic, which is Homa with other parameters ([homa 3.1]).
//!
//! **Reading order.** [`endpoint`], what all share, and its parts [`received`] and [`flows`]; then
//! [`blast`], the smallest rival; what senders choose by, [`least`] and [`turns`]; [`scoreboard`]
//! and [`selective`], for those that acknowledge each packet: [`pfabric`], [`dctcp`], [`pias`] with
//! its [`thresholds`]; last those that ask the receiver, [`phost`] and [`ndp`].

pub mod alarm;
pub mod blast;
pub mod dctcp;
pub mod endpoint;
pub mod flows;
pub mod least;
pub mod ndp;
pub mod pfabric;
pub mod phost;
pub mod pias;
pub mod received;
pub mod scoreboard;
pub mod selective;
pub mod thresholds;
pub mod turns;

pub use endpoint::{
    About, ConfigError, FRAME_BYTES, HEADER_BYTES, PAYLOAD_BYTES, Timer, Why, extent, packets,
};
