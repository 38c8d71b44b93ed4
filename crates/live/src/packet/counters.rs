//! What an endpoint counts.

/// Counts since the start of an endpoint whose machine counts `M` and whose codec tells kinds of
/// damage apart as `F`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters<M, F> {
    /// What the machine counts.
    pub machine: M,
    /// Packets received, whatever became of them.
    pub packets_received: u64,
    /// Packets handed to the system.
    pub packets_sent: u64,
    /// Packets that were none, by kind ([`Codec::Malformed`](super::Codec::Malformed)).
    pub malformed: F,
    /// Packets for another port, or whose name says that they come from the wrong side.
    pub wrong_port: u64,
    /// Packets longer than any that may come.
    pub too_long: u64,
    /// With a key: packets that no holder of it wrote for this endpoint since it started.
    pub unauthentic: u64,
    /// With a key: packets that came before.
    pub replayed: u64,
    /// Packets from addresses for which there was no room.
    pub peers_full: u64,
    /// Packets not sent, because their receiver has not shown yet that it receives.
    pub withheld: u64,
    /// Packets that the system refused to send.
    pub send_errors: u64,
    /// ICMP messages that say that nobody listens where a packet was sent.
    pub unreachable: u64,
    /// Those of them that quote a call under way.
    pub unreachable_known: u64,
    /// Calls begun.
    pub calls: u64,
    /// Calls that ended with an answer.
    pub answered: u64,
    /// Questions given to the handler.
    pub questions: u64,
    /// Questions refused: too many waited, or this one too long, the handler gave no answer, or
    /// this endpoint was closing.
    pub refused: u64,
    /// Answers that were sent and never acknowledged, or not taken.
    pub answers_failed: u64,
    /// Exchanges in the machine now.
    pub exchanges: u64,
    /// Messages that are arriving, questions that wait or are handled, and answers that are kept,
    /// now.
    pub messages: u64,
    /// Bytes of those messages, of calls' questions too; not of questions with the handler.
    pub message_bytes: u64,
    /// Peers known now.
    pub peers: u64,
}
