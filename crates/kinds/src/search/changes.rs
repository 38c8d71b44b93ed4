//! What schemes with fixed parts copy to change p `[roar 2.8, 3.1, 0.18]`.

/// How a scheme with fixed parts changes p.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Change {
    /// Clusters are merged, and split.
    #[default]
    Merge,
    /// To lower p, clusters are dissolved: their servers load another part.
    Dissolve,
    /// `_shrink` and `_split`.
    Shards,
    /// `_reindex` into shards of another number beside the old ones, which answer meanwhile.
    Reindex,
}

/// Until all of this is copied, `members` answer.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Servers of each cluster.
    pub members: Vec<Vec<u32>>,
    /// What each server reads for others: shares of the index.
    pub read: Vec<f64>,
    /// What each server takes in, likewise.
    pub merged: Vec<f64>,
    /// Nothing can be written.
    pub blocked: bool,
    /// What is taken in was on this server before.
    pub local: bool,
}

/// The clusters that `old` ones become with `p` parts, which divides the number of servers. When p
/// changes by a whole factor, whole clusters are merged or split.
pub fn next(old: &[Vec<u32>], p: usize) -> Vec<Vec<u32>> {
    let all = old.concat();
    all.chunks(all.len() / p).map(<[u32]>::to_vec).collect()
}

/// What has to be done before the clusters `old` have become those of `next`.
pub fn stages(change: Change, servers: usize, old: &[Vec<u32>], new: &[Vec<u32>]) -> Vec<Stage> {
    let (p, q) = (old.len() as f64, new.len() as f64);
    let stage = |members: &[Vec<u32>], blocked: bool| Stage {
        members: members.to_vec(),
        read: vec![0.0; servers],
        merged: vec![0.0; servers],
        blocked,
        local: false,
    };
    // The first server of each cluster gives what the others of it take in.
    let replicas = || {
        let mut last = stage(old, false);
        for (first, others) in new.iter().filter_map(|one| one.split_first()) {
            last.read[*first as usize] += others.len() as f64 / q;
            others.iter().for_each(|other| last.merged[*other as usize] += 1.0 / q);
        }
        last
    };
    let falls = new.len() < old.len();
    match change {
        // Both halves of a cluster drop, and nothing else.
        Change::Merge | Change::Dissolve if !falls => Vec::new(),
        Change::Merge => {
            let mut only = stage(old, false);
            let more = 1.0 / q - 1.0 / p;
            (only.read, only.merged) = (vec![more; servers], vec![more; servers]);
            vec![only]
        }
        Change::Dissolve => {
            let group = old.len() / new.len();
            let kept: Vec<Vec<u32>> = old.iter().step_by(group).cloned().collect();
            let (mut first, mut second) = (stage(old, false), stage(&kept, false));
            let is_kept = |server: &u32| kept.iter().any(|one| one.contains(server));
            let (stay, go): (Vec<u32>, Vec<u32>) = (0..servers as u32).partition(is_kept);
            let (more, all) = (1.0 / q - 1.0 / p, 1.0 / q);
            let ratio = stay.len() as f64 / go.len() as f64;
            for server in stay.iter().map(|server| *server as usize) {
                first.merged[server] = more;
                second.read[server] = all / ratio;
            }
            for server in go.iter().map(|server| *server as usize) {
                first.read[server] = more * ratio;
                second.merged[server] = all;
            }
            vec![first, second]
        }
        Change::Shards if falls => {
            // A copy of every shard to one node, while nothing may be written; it makes the new
            // shards by links, and gives all but one away.
            let (mut first, mut second) = (stage(old, true), stage(old, false));
            let node = old[0][0] as usize;
            for other in old.iter().skip(1) {
                first.read[other[0] as usize] += 1.0 / p;
                first.merged[node] += 1.0 / p;
            }
            for other in new.iter().skip(1) {
                second.read[node] += 1.0 / q;
                second.merged[other[0] as usize] += 1.0 / q;
            }
            vec![first, second, replicas()]
        }
        Change::Shards => {
            // Each shard is written anew where it is, without what belongs to others, while nothing
            // may be written; then the new ones are spread.
            let (mut first, mut second) = (stage(old, true), stage(old, false));
            first.local = true;
            let into = new.len() / old.len();
            for (one, parts) in old.iter().zip(new.chunks(into)) {
                first.merged[one[0] as usize] += 1.0 / p;
                for other in parts.iter().skip(1) {
                    second.read[one[0] as usize] += 1.0 / q;
                    second.merged[other[0] as usize] += 1.0 / q;
                }
            }
            vec![first, second, replicas()]
        }
        Change::Reindex => {
            // Every document is read once and indexed in its new shard; copies of that are made
            // when it is whole, as its makers advise.
            let mut first = stage(old, false);
            first.read = vec![1.0 / servers as f64; servers];
            for one in new {
                first.merged[one[0] as usize] += 1.0 / q;
            }
            vec![first, replicas()]
        }
    }
}
