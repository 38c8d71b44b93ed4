//! What a point on a network came to.

use super::classes::ClassResult;
use super::tail::TailSources;
use super::timeline::TimeBin;
use cavy_lab::statistics::quantile::given;
use cavy_study::outcome::{Outcome, Quantile, Summary};
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// The metric that is no percentile: payload that arrived, of answers where messages are questions.
pub(super) const GOODPUT: &str = "goodput_gbps";

/// What some messages experienced. `None` where there are none; ask [`Quantile::supported`] whether
/// there were enough.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetSummary {
    /// Latency, and slowdown over the least time that there is.
    #[serde(flatten)]
    pub summary: Summary,
    /// Median time over the transport's own best.
    pub p50_own: Option<Quantile>,
    /// 99th percentile of it.
    pub p99_own: Option<Quantile>,
    /// Of the messages beyond the 99th percentile of slowdown, the share that ended after arrivals
    /// had stopped, when less and less was in their way; `None` where none did. With a large share
    /// the percentile is too low.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_late_ratio: Option<f64>,
}

/// Where more than this share of the messages beyond a percentile ended after arrivals had stopped,
/// the percentile is too low. Of the largest thousandth of W3 under Homa it is 0.19 in runs of 150
/// ms and 0.08 in runs of 450 ms, whose P99 is 0.85 and 0.95 of that in runs of 1,350 ms.
pub(super) const LATE_MAX: f64 = 0.1;

impl NetSummary {
    /// [`NetSummary::p99_late_ratio`], if it makes the percentile too low.
    pub fn too_late_ratio(&self) -> Option<f64> {
        self.p99_late_ratio.filter(|&share| share > LATE_MAX)
    }
}

/// Latency and slowdown are read like the rest.
impl Deref for NetSummary {
    type Target = Summary;
    fn deref(&self) -> &Summary {
        &self.summary
    }
}

/// A bin of sizes, or all messages up to or from a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeSlice {
    /// Cumulative share of messages at the end of the bin; of the slice for "smallest" and
    /// "largest".
    pub share: f64,
    /// The longest message of a bin or of the smallest; the bound that all of the largest exceed.
    pub bytes: u32,
    /// What they experienced.
    #[serde(flatten)]
    pub summary: NetSummary,
}

/// The messages just below the end of a bin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Cumulative share of messages that are shorter.
    pub from_share: f64,
    /// Share and size at the end, and what they experienced.
    #[serde(flatten)]
    pub slice: SizeSlice,
}

/// Queues of one class of ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortResult {
    /// `nic`, `downlink`, `uplink` or `spine`.
    pub class: String,
    /// How many such ports.
    pub ports: u32,
    /// Bytes waiting, the mean over time, ports and replications.
    pub mean_bytes: f64,
    /// Each replication's own mean.
    pub mean_bytes_each: Vec<f64>,
    /// Mean over packets of the bytes they found before them, on the wire or waiting [homa 5.7].
    pub found_mean_bytes: f64,
    /// The most bytes at any port at any time.
    pub max_bytes: u64,
    /// Share of the time that ports were sending.
    pub utilization: f64,
}

/// What became of packets, all replications together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketResult {
    /// Left a transport.
    pub sent: u64,
    /// Links crossed.
    pub hops: u64,
    /// Lost for want of room.
    pub dropped: u64,
    /// Lost on links that lose some, or at hosts that had not started.
    pub lost: u64,
    /// Lost their payload.
    pub trimmed: u64,
    /// Marked.
    pub marked: u64,
}

/// What a point on a network came to, beside what all outcomes have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// Submitted after the warm-up, and neither arrived nor failed when the run ended.
    pub unfinished: u64,
    /// Given up by a transport.
    pub failed: u64,
    /// By class of traffic, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassResult>,
    /// Over all messages together.
    pub overall: NetSummary,
    /// Over the smallest half of the messages.
    pub short: NetSummary,
    /// By size: deciles of the message count, 95, 99, 99.9 and 100 % [homa 4.3].
    pub bins: Vec<SizeSlice>,
    /// At the end of each of `bins` the last 1 % of all messages before it, or the last 4 %, or the
    /// whole bin: the narrowest whose 99th percentile is supported, the whole bin if none is. For
    /// the last bin the largest hundred-thousandth or ten-thousandth.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<Edge>,
    /// All messages up to the end of each bin.
    pub smallest: Vec<SizeSlice>,
    /// The largest 50, 10 and 1 % of the messages, as near as sizes allow.
    pub largest: Vec<SizeSlice>,
    /// The largest hundred-thousandth of the messages, or those of the longest size, however few
    /// they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<SizeSlice>,
    /// Payload that arrived for the first time, Gb/s for each host.
    pub goodput_gbps: f64,
    /// Payload that was to arrive, Gb/s for each host; zero for closed loops.
    pub offered_gbps: f64,
    /// Payload of answers that arrived, Gb/s for each asker; `None` for one-way messages.
    pub answers_gbps: Option<f64>,
    /// Queues by class of port.
    pub ports: Vec<PortResult>,
    /// Wire bytes that hosts sent at each level, the lowest first, all replications together.
    pub level_bytes: Vec<u64>,
    /// Share of the time that downlinks idled while their receiver withheld grants [homa 5.5];
    /// `None` for transports that grant nothing.
    pub waste_ratio: Option<f64>,
    /// What short messages near the 99th percentile wait for.
    pub tail_sources: Option<TailSources>,
    /// Packets.
    pub packets: PacketResult,
    /// Payload that left hosts, and of it what had left before.
    pub payload_bytes: u64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// Mean bytes per host that were submitted and had not arrived, over each half of the time that
    /// counts [homa 5.4].
    pub backlog_bytes: [f64; 2],
    /// What changed over time, if the plan asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<TimeBin>,
    /// Blocks, if that is what was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlockResult>,
}

/// What became of blocks after the first of each replication [incast 4.1].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockResult {
    /// Blocks of all replications.
    pub blocks: u64,
    /// Payload of blocks, Mb/s, of each replication that had more than one.
    pub goodput_each_mbps: Vec<f64>,
    /// Their mean over what the client's link carries; `None` without blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_ratio: Option<f64>,
    /// Median time of a block, milliseconds.
    pub p50_ms: f64,
    /// Segments with data for each that was new; `None` for transports that do not say.
    pub sends_per_segment: Option<f64>,
    /// Timers of servers that ran out: of whole windows, of tails, of what was sent again already.
    pub timeouts: Option<[u64; 3]>,
    /// Of them such as had heard no duplicate since their left edge moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts_silent: Option<u64>,
    /// Of them such as had heard no duplicate outside a repair since it moved or a timer ran out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts_unprompted: Option<u64>,
    /// The most in a row of one connection.
    pub timeouts_run: Option<u64>,
    /// Connections whose longest run of timeouts reached 1, 6, 10, 20 and 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_by_run: Option<[u64; 5]>,
    /// Connections whose most doublings of the timeout, forgotten by none between, reached as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_by_doublings: Option<[u64; 5]>,
    /// Times of blocks, milliseconds: the least, then for each hundredth of the blocks the time
    /// within which so many were done. Empty without blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_ms: Vec<f64>,
}

impl BlockResult {
    /// The time within which so many per cent of the blocks were done, milliseconds; `None` above
    /// the median with fewer than 100 blocks beyond it.
    pub fn within_ms(&self, per_cent: u8) -> Option<f64> {
        let known = given(self.blocks, f64::from(per_cent) / 100.0);
        self.latency_ms.get(usize::from(per_cent)).copied().filter(|_| known)
    }

    /// Mean over replications.
    pub fn goodput_mbps(&self) -> f64 {
        self.goodput_each_mbps.iter().sum::<f64>() / self.goodput_each_mbps.len().max(1) as f64
    }
}

/// The result of one point.
pub type NetResult = Outcome<Carried>;

impl Carried {
    /// What has every part and no message, with a bin up to each of these sizes and these classes.
    pub(super) fn blank(sizes: &[u32], classes: &[&str]) -> Carried {
        let slice = |bytes| SizeSlice { share: 1.0, bytes, summary: NetSummary::default() };
        let all = || slice(u32::MAX);
        let port = |class: &str| PortResult {
            class: class.to_string(),
            ports: 1,
            mean_bytes: 0.0,
            mean_bytes_each: Vec::new(),
            found_mean_bytes: 0.0,
            max_bytes: 0,
            utilization: 0.0,
        };
        Carried {
            unfinished: 0,
            failed: 0,
            classes: classes
                .iter()
                .map(|name| ClassResult {
                    name: (*name).to_string(),
                    summary: NetSummary::default(),
                })
                .collect(),
            overall: NetSummary::default(),
            short: NetSummary::default(),
            bins: sizes.iter().map(|&bytes| slice(bytes)).collect(),
            edges: Vec::new(),
            smallest: vec![all()],
            largest: vec![all()],
            longest: Some(all()),
            goodput_gbps: 0.0,
            offered_gbps: 0.0,
            answers_gbps: Some(0.0),
            ports: ["nic", "downlink", "uplink", "spine"].map(port).into(),
            level_bytes: vec![0; 8],
            waste_ratio: Some(0.0),
            tail_sources: Some(TailSources { queueing_us: 0.0, lag_us: 0.0, messages: 0 }),
            packets: PacketResult::default(),
            payload_bytes: 0,
            retransmitted_bytes: 0,
            backlog_bytes: [0.0; 2],
            timeline: Vec::new(),
            blocks: None,
        }
    }

    /// Lets percentiles of a section be given where those of the `whole` are. The slices of both
    /// are of the same messages.
    pub(super) fn support(&mut self, whole: &Carried) {
        let each = |mine: &mut NetSummary, theirs: &NetSummary| {
            mine.summary.support(&theirs.summary);
            Quantile::support(&mut mine.p50_own, &theirs.p50_own);
            Quantile::support(&mut mine.p99_own, &theirs.p99_own);
        };
        each(&mut self.overall, &whole.overall);
        each(&mut self.short, &whole.short);
        for (mine, theirs) in self.classes.iter_mut().zip(&whole.classes) {
            each(&mut mine.summary, &theirs.summary);
        }
        let slices = [
            (&mut self.bins, &whole.bins),
            (&mut self.smallest, &whole.smallest),
            (&mut self.largest, &whole.largest),
        ];
        for (mine, theirs) in slices {
            let both = mine.iter_mut().zip(theirs);
            both.for_each(|(mine, theirs)| each(&mut mine.summary, &theirs.summary));
        }
        if let (Some(mine), Some(theirs)) = (&mut self.longest, &whole.longest) {
            each(&mut mine.summary, &theirs.summary);
        }
    }

    /// The bin that holds the message at this share of all, the smallest first.
    pub fn bin_at(&self, share: f64) -> Option<&SizeSlice> {
        self.bins.iter().find(|bin| bin.share >= share - 1e-9).or(self.bins.last())
    }

    /// The edge of that bin.
    pub fn edge_at(&self, share: f64) -> Option<&Edge> {
        self.edges.iter().find(|edge| edge.slice.share >= share - 1e-9).or(self.edges.last())
    }

    /// The smallest messages up to a share of all: the largest slice within it.
    pub fn smallest_to(&self, share: f64) -> Option<&SizeSlice> {
        let within = self.smallest.iter().rfind(|slice| slice.share <= share + 1e-9);
        within.or(self.smallest.first())
    }

    /// The class of ports called `nic`, `downlink`, `uplink` or `spine`.
    pub fn port(&self, class: &str) -> Option<&PortResult> {
        self.ports.iter().find(|port| port.class == class)
    }

    /// The largest queue at any port of a switch, bytes.
    pub fn queue_max_bytes(&self) -> u64 {
        let switches = self.ports.iter().filter(|port| port.class != "nic");
        switches.map(|port| port.max_bytes).max().unwrap_or(0)
    }

    /// Share of what was to arrive that did arrive in the time that counts: less than 1 while the
    /// longest messages of a short run are still under way.
    pub fn carried_ratio(&self) -> f64 {
        if self.offered_gbps > 0.0 { self.goodput_gbps / self.offered_gbps } else { 1.0 }
    }

    /// Share of the payload that was sent again.
    pub fn retransmitted_ratio(&self) -> f64 {
        self.retransmitted_bytes as f64 / self.payload_bytes.max(1) as f64
    }
}
