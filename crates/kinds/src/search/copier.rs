//! What a server copies while queries leave it time, in the recursion of free times.

/// Nanoseconds that are copied at a stretch, as by ROAR's servers.
const PIECE: u64 = 500_000;
/// Of one request: so many nanoseconds are copied at once when it has waited for long enough.
pub const CHUNK: u64 = 32_000_000;
/// Copies wait so long for queries at most, and may make up for so much of what they waited.
const YIELDS: u64 = 1_000_000_000;

/// One server's copies: what it reads for others, and what it takes in. Each has half of the share
/// of the processor that copies may have, as ROAR's servers do it.
#[derive(Clone, Debug)]
pub struct Copier {
    tracks: [Track; 2],
    percent: u64,
    waits: bool,
}

#[derive(Clone, Copy, Debug)]
struct Track {
    left_ns: u64,
    /// When the next piece may begin.
    due: u64,
}

impl Copier {
    /// From `now` on. `percent` is of a processor, 1 to 100; `waits`: queries go first.
    pub fn new(left_ns: [u64; 2], percent: u32, waits: bool, now: u64) -> Copier {
        let tracks = left_ns.map(|left_ns| Track { left_ns, due: now });
        Copier { tracks, percent: u64::from(percent.clamp(1, 100)), waits }
    }

    /// Nothing is left.
    pub fn is_done(&self) -> bool {
        self.tracks.iter().all(|track| track.left_ns == 0)
    }

    /// Copies until `now` on a server that was free from `free_at` on. A piece that is under way at
    /// `now` is finished. Returns what it worked.
    pub fn copy(&mut self, free_at: &mut u64, now: u64) -> u64 {
        let mut worked = 0;
        loop {
            let begin = |track: &Track| (*free_at).max(track.due);
            let left = self.tracks.iter().enumerate().filter(|(_, track)| track.left_ns > 0);
            let Some((which, begin)) =
                left.map(|(which, track)| (which, begin(track))).min_by_key(|(_, at)| *at)
            else {
                return worked;
            };
            let track = &mut self.tracks[which];
            // Behind queries that do not end it waits, but not for ever.
            let forced = begin >= now && track.due.saturating_add(YIELDS) <= now;
            if begin >= now && !forced {
                return worked;
            }
            let most = if forced || !self.waits { CHUNK } else { PIECE };
            let piece = track.left_ns.min(most);
            let least = if self.waits { begin.saturating_sub(YIELDS) } else { begin };
            track.left_ns -= piece;
            track.due = track.due.max(least) + piece * 200 / self.percent;
            *free_at = begin + piece;
            worked += piece;
        }
    }
}
