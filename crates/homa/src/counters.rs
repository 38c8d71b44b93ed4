//! What a machine counts.

/// Counts since the start. Packets of peers that make no sense are dropped and counted here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// DATA sent for the first time.
    pub data_sent: u64,
    /// Payload bytes sent for the first time.
    pub data_sent_bytes: u64,
    /// DATA sent again.
    pub data_resent: u64,
    /// DATA received.
    pub data_received: u64,
    /// DATA received that brought nothing new.
    pub duplicates: u64,
    /// Of these, sent again by the sender: a RESEND that was not needed.
    pub spurious_resends: u64,
    /// Grants decided; fewer GRANT packets are sent, for several may ride in one.
    pub grants: u64,
    /// GRANT packets sent.
    pub grants_sent: u64,
    /// GRANT packets received that granted nothing new.
    pub grants_stale: u64,
    /// RESEND packets sent.
    pub resends_sent: u64,
    /// RESEND packets received.
    pub resends_received: u64,
    /// BUSY packets sent.
    pub busy_sent: u64,
    /// UNKNOWN packets sent.
    pub unknown_sent: u64,
    /// UNKNOWN packets received.
    pub unknown_received: u64,
    /// Refusals sent, the same one again as well.
    pub refusals_sent: u64,
    /// Questions of this host that were refused.
    pub refusals_received: u64,
    /// CUTOFFS packets sent.
    pub cutoffs_sent: u64,
    /// NEED_ACK packets sent.
    pub need_acks_sent: u64,
    /// ACK packets sent.
    pub acks_sent: u64,
    /// Exchanges begun anew because the peer did not know them.
    pub restarts: u64,
    /// Exchanges given up because the peer was silent.
    pub timeouts: u64,
    /// Exchanges ended early whose peers had not shown that they receive.
    pub strangers_ended: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Bytes of messages delivered.
    pub delivered_bytes: u64,
    /// Of the RESEND and NEED_ACK packets, those of quick repair: complaints.
    pub quick_resends: u64,
    /// Times sizes were looked at, to learn cut-offs from them.
    pub cutoffs_looked: u64,
    /// Times new cut-offs were learned.
    pub cutoffs_learned: u64,
    /// Questions marked against incast.
    pub incast_marks: u64,
    /// Packets for exchanges that are over.
    pub stale: u64,
    /// Packets that make no sense.
    pub malformed: u64,
    /// Packets whose payload a switch cut off.
    pub trimmed: u64,
    /// DATA dropped because there were too many exchanges, peers or gaps.
    pub dropped_no_room: u64,
    /// DATA dropped because there was no buffer for the message.
    pub dropped_no_buffer: u64,
    /// Control packets not sent because too many waited.
    pub dropped_control: u64,
}
