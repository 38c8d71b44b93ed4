//! What the queues of a port counted.

use crate::{Error, LEVELS, tools};
use serde_json::Value;

/// One level of a port, since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelCounters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, from the Ethernet header on.
    pub bytes: u64,
    /// Packets that found no room.
    pub dropped: u64,
}

/// A port, lowest level first. A host's own interface has one level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortCounters {
    /// Its levels.
    pub levels: [LevelCounters; LEVELS],
}

impl PortCounters {
    /// Packets that found no room at any level.
    pub fn dropped(&self) -> u64 {
        self.levels.iter().map(|level| level.dropped).sum()
    }

    /// What was counted since `before`.
    pub fn since(&self, before: &PortCounters) -> PortCounters {
        let mut now = *self;
        for (now, before) in now.levels.iter_mut().zip(&before.levels) {
            now.packets = now.packets.saturating_sub(before.packets);
            now.bytes = now.bytes.saturating_sub(before.bytes);
            now.dropped = now.dropped.saturating_sub(before.dropped);
        }
        now
    }
}

/// Reads the queues of a device in the namespace of this name.
///
/// # Errors
/// When `tc` fails or says what is not understood.
pub fn read(space: &str, device: &str) -> Result<PortCounters, Error> {
    let args = ["-n", space, "-s", "-j", "qdisc", "show", "dev", device];
    let said = tools::run("tc", &args)?;
    parse(&said).ok_or_else(|| Error::new("`tc -s -j qdisc show` says what is not understood"))
}

fn parse(said: &str) -> Option<PortCounters> {
    let all: Value = serde_json::from_str(said).ok()?;
    let mut counters = PortCounters::default();
    for queue in all.as_array()? {
        let level = queue["handle"].as_str()?.strip_suffix(':')?.strip_prefix('1');
        let level = level.and_then(|level| level.parse::<usize>().ok());
        let Some(slot) = level.and_then(|level| counters.levels.get_mut(level)) else { continue };
        *slot = LevelCounters {
            packets: queue["packets"].as_u64()?,
            bytes: queue["bytes"].as_u64()?,
            dropped: queue["drops"].as_u64()?,
        };
    }
    Some(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tc_says_is_read_by_level() {
        let said = r#"[{"kind":"htb","handle":"1:","root":true,"bytes":9,"packets":9,"drops":9},
            {"kind":"bfifo","handle":"10:","bytes":100,"packets":2,"drops":1,"qlen":0},
            {"kind":"bfifo","handle":"17:","bytes":60,"packets":1,"drops":0,"qlen":0}]"#;
        let counters = parse(said).expect("an answer");
        assert_eq!(counters.levels[0], LevelCounters { packets: 2, bytes: 100, dropped: 1 });
        assert_eq!(counters.levels[7].bytes, 60);
        assert_eq!(counters.dropped(), 1);
        assert_eq!(counters.since(&counters), PortCounters::default());
        assert!(parse("no").is_none());
    }
}
