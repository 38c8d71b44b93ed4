//! Answers to SYNs that leave nothing behind (RFC 4987 3.6).
//!
//! A port with as many half-open connections as it may have answers further SYNs as if it kept
//! them, and forgets them. What it must know when the client answers is in the number that it chose
//! for the client to acknowledge, and in its timestamp, which the client echoes: the largest
//! segment, the scale, whether there are selective acknowledgements and marks. A keyed hash tells
//! that the number is ours. So neither a flood of SYNs nor a burst of clients keeps anybody out.
//!
//! Where no timestamps were agreed on there is neither a scale nor a selective acknowledgement, and
//! an answer of ours that is lost is not repeated, but for the next SYN.

use crate::segment::{Flags, Segment, Stamps};
use cavy_core::family::Node;
use cavy_core::{Instant, Span, Stream};
use core::hash::Hasher as _;
use siphasher::sip::SipHasher24;

/// Largest segments that a number can tell of.
const MSS: [u16; 8] = [48, 216, 536, 1220, 1360, 1400, 1440, 1460];
/// Numbers are of a stretch of this length, and good in it and the next one.
const STRETCH: Span = Span::from_ms(64_000);
/// Bits of a timestamp that tell of options.
const OPTIONS: u32 = 0x3f;
const NO_SCALE: u32 = 0xf;
const SACK: u32 = 0x10;
const MARKS: u32 = 0x20;

/// The numbers of one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cookies {
    /// Drawn when the first is made.
    key: Option<[u64; 2]>,
    last: Option<Instant>,
}

/// What both ends of a connection are called: the peer, its port and ours.
pub(crate) type Ends = (Node, u16, u16);

fn stretch(now: Instant) -> u32 {
    (now.as_ns() / STRETCH.as_ns()) as u32
}

impl Cookies {
    fn hash(&self, (peer, theirs, ours): Ends, words: [u32; 3]) -> Option<u32> {
        let [one, two] = self.key?;
        let mut hasher = SipHasher24::new_with_keys(one, two);
        hasher.write_u32(peer.0);
        hasher.write_u16(theirs);
        hasher.write_u16(ours);
        words.iter().for_each(|&word| hasher.write_u32(word));
        Some(hasher.finish() as u32)
    }

    /// 24 bits that nobody can guess, five of the stretch, three of the largest segment.
    fn number(&self, ends: Ends, irs: u32, stretch: u32, told: (u32, u32)) -> Option<u32> {
        let (mss, options) = told;
        let hash = self.hash(ends, [irs, stretch, options << 3 | mss])?;
        Some(hash << 8 | (stretch & 0x1f) << 3 | mss)
    }

    /// Where the timestamps of a connection begin: the same when it is made anew.
    pub fn stamp_offset(&self, ends: Ends) -> u32 {
        self.hash(ends, [0, 0, u32::MAX]).unwrap_or(0)
    }

    /// The number for the answer to `syn`.
    pub fn make(&mut self, ends: Ends, syn: &Segment, now: Instant, rng: &mut Stream) -> u32 {
        self.key.get_or_insert_with(|| [rng.bits(), rng.bits()]);
        self.last = Some(now);
        let theirs = syn.mss.filter(|&mss| mss > 0).unwrap_or(536);
        let mss = MSS.iter().rposition(|&mss| mss <= theirs).unwrap_or(0) as u32;
        self.number(ends, syn.seq, stretch(now), (mss, options_of(syn))).unwrap_or(0)
    }

    /// The SYN that a number of ours answered, if `answer` acknowledges one that is still good.
    pub fn recall(&self, ends: Ends, answer: &Segment, now: Instant) -> Option<Segment> {
        self.last.filter(|&last| now.since(last) <= STRETCH + STRETCH)?;
        let number = answer.ack.wrapping_sub(1);
        let irs = answer.seq.wrapping_sub(1);
        let options = answer.stamps.map_or(NO_SCALE, |stamps| stamps.echo & OPTIONS);
        let mss = number & 7;
        let age = stretch(now).wrapping_sub(number >> 3 & 0x1f) & 0x1f;
        let of = stretch(now).checked_sub(age).filter(|_| age <= 1)?;
        if self.number(ends, irs, of, (mss, options)) != Some(number) {
            return None;
        }
        let marks = if options & MARKS > 0 { Flags::ECE.with(Flags::CWR) } else { Flags(0) };
        let mut syn = Segment::new(answer.source, answer.destination, irs, Flags::SYN.with(marks));
        syn.window = answer.window;
        syn.mss = Some(MSS[mss as usize]);
        syn.scale = Some((options & NO_SCALE) as u8).filter(|&scale| u32::from(scale) != NO_SCALE);
        syn.sack_permitted = options & SACK > 0;
        syn.stamps = answer.stamps;
        Some(syn)
    }
}

/// What of the options of a SYN can be told; without timestamps, nothing.
fn options_of(syn: &Segment) -> u32 {
    if syn.stamps.is_none() {
        return NO_SCALE;
    }
    let scale = syn.scale.map_or(NO_SCALE, |scale| u32::from(scale.min(14)));
    let sack = if syn.sack_permitted { SACK } else { 0 };
    let marks = if syn.flags.has(Flags::ECE.with(Flags::CWR)) { MARKS } else { 0 };
    scale | sack | marks
}

/// The SYN as far as an answer without memory can heed it.
pub(crate) fn heard(syn: &Segment, stamps: bool) -> Segment {
    let mut syn = *syn;
    if !stamps {
        syn.stamps = None;
    }
    if syn.stamps.is_none() {
        syn.scale = None;
        syn.sack_permitted = false;
        syn.flags = Flags::SYN;
    }
    syn
}

/// The timestamp that tells of the options of `syn`, at most `value`.
pub(crate) fn stamp(syn: &Segment, stamps: Stamps) -> Stamps {
    let told = stamps.value & !OPTIONS | options_of(syn);
    let later = (told.wrapping_sub(stamps.value) as i32) > 0;
    Stamps { value: if later { told.wrapping_sub(OPTIONS + 1) } else { told }, ..stamps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Purpose;

    fn syn() -> Segment {
        let mut syn = Segment::new(9, 80, 1_000, Flags::SYN);
        (syn.mss, syn.scale, syn.sack_permitted) = (Some(1_460), Some(7), true);
        syn.stamps = Some(Stamps { value: 5, echo: 0 });
        syn
    }

    /// What a client says that got such an answer to its SYN.
    fn answer(syn: &Segment, number: u32, value: u32) -> Segment {
        let mut answer = Segment::new(syn.source, syn.destination, syn.seq + 1, Flags::ACK);
        answer.ack = number.wrapping_add(1);
        let told = stamp(syn, Stamps { value, echo: 5 });
        answer.stamps = syn.stamps.map(|_| Stamps { value: 6, echo: told.value });
        answer
    }

    #[test]
    fn a_number_tells_what_the_syn_said_and_nobody_else_can_make_one() {
        let (mut cookies, mut rng) = (Cookies::default(), Stream::keyed(7, 0, Purpose::Machine));
        let (ends, at) = ((Node(3), 9, 80), Instant::ZERO + Span::from_ms(300_000));
        let mut syn = syn();
        for (scale, sack) in [(Some(7), true), (None, true), (Some(0), false), (Some(14), false)] {
            (syn.scale, syn.sack_permitted) = (scale, sack);
            let number = cookies.make(ends, &syn, at, &mut rng);
            for value in [0, 1, 63, 64, u32::MAX] {
                let answer = answer(&syn, number, value);
                let told = cookies.recall(ends, &answer, at + Span::from_ms(60_000));
                let told = told.expect("it is ours");
                assert_eq!((told.mss, told.scale), (Some(1_460), scale));
                assert_eq!((told.sack_permitted, told.seq), (sack, 1_000));
                // From another, of another kind, or long ago.
                assert!(cookies.recall((Node(4), 9, 80), &answer, at).is_none());
                assert!(cookies.recall(ends, &answer, at + Span::from_ms(130_000)).is_none());
                let mut forged = answer;
                forged.ack ^= 1 << 20;
                assert!(cookies.recall(ends, &forged, at).is_none());
                let mut forged = answer;
                forged.stamps = Some(Stamps { value: 6, echo: 0x0f ^ SACK });
                let same = forged.stamps.map(|s| s.echo & OPTIONS) == Some(options_of(&syn));
                assert_eq!(cookies.recall(ends, &forged, at).is_some(), same);
            }
        }
    }

    #[test]
    fn a_stamp_is_never_ahead_of_the_clock() {
        for value in [0, 5, 63, 64, 1_000_000, u32::MAX] {
            let told = stamp(&syn(), Stamps { value, echo: 0 }).value;
            assert!((0..64).contains(&value.wrapping_sub(told)), "{value} {told}");
            assert_eq!(told & OPTIONS, 0x17);
        }
    }
}
