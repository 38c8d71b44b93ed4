//! What a protocol of the packet family gives to be run live.

use super::carrier::HEAD_BYTES;
use super::client::CallError;
use super::options::{Options, Terms};
use crate::record::packet::{Configuration, TimerOf};
use crate::sync::{Arc, Mutex};
use cavy_core::family::Node;
use cavy_core::family::packet::{Extent, Input, Message};
use std::fmt::Debug;

/// The two ports of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// Of whoever sent it.
    pub source: u16,
    /// Whom it is for.
    pub destination: u16,
}

/// Who gives a question up that was delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It was not begun: too much waits.
    Overloaded,
    /// It was begun, and there is no answer.
    Unanswered,
}

/// A protocol of the packet family, as its configuration: the machine that this builds, and what an
/// endpoint must know of it beyond what the family says.
///
/// The machine asks and answers: it takes [`Input::Submit`] with `asks`, and [`Input::Answer`] for
/// what it delivered. An endpoint keeps the bytes, the clock, the socket, deadlines and bounds.
pub trait Protocol: Configuration {
    /// Its packets as bytes.
    type Codec: Codec<Header = Self::Words>;
    /// What the machine counts.
    type Counters: Copy + PartialEq + Eq + Debug + Default + Send + 'static;

    /// Number of the protocol in IP's header; `None` if it travels in UDP only.
    const IP_PROTOCOL: Option<u8> = None;

    /// How this configuration says packets.
    fn codec(&self) -> Self::Codec;

    /// Bounds that an endpoint keeps before the machine has to.
    fn terms(&self) -> Terms;

    /// The call ends so when the machine gives a message up for this reason.
    fn outcome(&self, why: Self::Why) -> CallError;

    /// What to tell the machine when a question is given up here: it forgets the exchange, and says
    /// so to whoever asked if the protocol can.
    fn refusal(&self, to: Node, question: Message, refusal: Refusal) -> Input<Self::Words>;

    /// What the machine has counted.
    fn counters(machine: &Self::Machine) -> Self::Counters;

    /// How many exchanges the machine has now.
    fn exchange_count(machine: &Self::Machine) -> usize;

    /// May this timer wait until the packets that have come are handled? For those that complain of
    /// silence.
    fn is_patient(_timer: TimerOf<Self>) -> bool {
        false
    }

    /// Bytes of the longest packet that may come, behind IP and UDP and before it is sealed.
    fn packet_bytes(&self) -> usize {
        9_000
    }

    /// Is every field in its range for an endpoint? Otherwise which is not, and what it must be.
    ///
    /// # Errors
    /// The field's name, and what it must be.
    fn check_live(&self) -> Result<(), (&'static str, String)> {
        Ok(())
    }

    /// The options with what is found out only when an endpoint is opened.
    fn settled(options: &Options<Self>) -> Options<Self> {
        options.clone()
    }
}

/// A packet that was read.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a, H> {
    /// Its ports.
    pub ports: Ports,
    /// Its header, for the machine.
    pub header: H,
    /// Which bytes of which message it carries.
    pub extent: Extent,
    /// Length of that message, if the packet carries bytes of it.
    pub message_bytes: Option<u32>,
    /// Those bytes.
    pub payload: &'a [u8],
}

/// A word that a packet has about an exchange other than its own: it is over.
#[derive(Clone, Copy, Debug)]
pub struct Receipt<H> {
    /// The exchange, by its client's name.
    pub id: u64,
    /// Port of the server that answered it.
    pub port: u16,
    /// Does the machine find it in the packet by itself, if the packet is for this port?
    pub is_read: bool,
    /// What to tell the machine, as a packet of the exchange, where it does not.
    pub header: H,
}

/// Packets of a protocol as bytes.
pub trait Codec: Send + 'static {
    /// The header of the machine's packets.
    type Header;
    /// Counts of packets that were none, by [`Codec::parse`]'s kinds: an array.
    type Malformed: AsMut<[u64]> + Copy + PartialEq + Eq + Debug + Default + Send + 'static;

    /// Reads a packet, which anybody may have written.
    ///
    /// # Errors
    /// The kind of damage, a place in [`Codec::Malformed`].
    fn parse<'a>(&self, bytes: &'a [u8]) -> Result<Parsed<'a, Self::Header>, usize>;

    /// Writes the header of a packet, of which the payload follows; its length.
    fn emit(
        &self,
        ports: Ports,
        header: &Self::Header,
        extent: &Extent,
        to: &mut [u8; HEAD_BYTES],
    ) -> usize;

    /// Of which message a packet was, and to which port, by its beginning as ICMP quotes it.
    fn quoted(&self, quote: &[u8]) -> Option<(Message, u16)>;

    /// The question whose answer the sender has got at least in part, as this packet shows.
    fn proven(&self, _packet: &Parsed<'_, Self::Header>) -> Option<u64> {
        None
    }

    /// Calls `tell` for exchanges that this packet says are over, besides its own.
    fn receipts(
        &self,
        _bytes: &[u8],
        _packet: &Parsed<'_, Self::Header>,
        _tell: &mut dyn FnMut(Receipt<Self::Header>),
    ) {
    }
}

/// What an endpoint of a protocol counts.
pub type CountersOf<P> = super::counters::Counters<
    <P as Protocol>::Counters,
    <<P as Protocol>::Codec as Codec>::Malformed,
>;

/// The same, shared by the threads of an endpoint.
pub(crate) type Counted<P> = Arc<Mutex<CountersOf<P>>>;
