//! A bad network between the stack and its device, to try things on.

use cavy_core::{Purpose, Stream};

/// What becomes of packets, in both directions; the others pass as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults {
    /// Packets in a thousand that are lost.
    pub lost_per_mille: u16,
    /// Packets in a thousand that the next three overtake.
    pub overtaken_per_mille: u16,
    /// Packets in a thousand that come twice.
    pub doubled_per_mille: u16,
    /// Which ones: the same numbers for the same seed, though not the same packets.
    pub seed: u64,
}

/// How many overtake.
const OVERTAKES: u8 = 3;

/// One direction.
pub(crate) struct Spoiler {
    faults: Faults,
    rng: Stream,
    held: Option<(Vec<u8>, u8)>,
}

impl Spoiler {
    pub fn new(faults: Faults, direction: u32) -> Spoiler {
        let rng = Stream::keyed(faults.seed, direction, Purpose::Faults);
        Spoiler { faults, rng, held: None }
    }

    /// What comes out for a packet that goes in.
    pub fn pass(&mut self, packet: Vec<u8>) -> Vec<Vec<u8>> {
        let draw = self.rng.below(1000) as u16;
        let Faults { lost_per_mille, overtaken_per_mille, doubled_per_mille, .. } = self.faults;
        let held = lost_per_mille + overtaken_per_mille;
        let mut out = Vec::new();
        if draw < lost_per_mille {
        } else if draw < held && self.held.is_none() {
            self.held = Some((packet, OVERTAKES));
            return out;
        } else if (held..held + doubled_per_mille).contains(&draw) {
            out.extend([packet.clone(), packet]);
        } else {
            out.push(packet);
        }
        if let Some((_, left)) = &mut self.held {
            *left -= 1;
            if *left == 0 {
                out.extend(self.held.take().map(|(packet, _)| packet));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_lost_overtaken_and_doubled_as_often_as_was_asked() {
        let faults =
            Faults { lost_per_mille: 50, overtaken_per_mille: 50, doubled_per_mille: 100, seed: 1 };
        let mut spoiler = Spoiler::new(faults, 0);
        let all: Vec<u16> = (0..10_000_u16)
            .flat_map(|n| spoiler.pass(n.to_be_bytes().to_vec()))
            .map(|packet| u16::from_be_bytes([packet[0], packet[1]]))
            .collect();
        let back = all.windows(2).filter(|pair| pair[1] < pair[0]).count();
        let twice = all.windows(2).filter(|pair| pair[1] == pair[0]).count();
        let kept = all.len() - twice;
        assert!((9_400..9_600).contains(&kept), "{kept}");
        assert!((300..500).contains(&back), "{back}");
        assert!((900..1_100).contains(&twice), "{twice}");
    }
}
