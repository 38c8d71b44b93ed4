//! Several classes of traffic at once: open loops that know nothing of each other.

use super::clock::Ps;
use super::traffic::{OpenLoop, OpenTraffic, Submission, Traffic, TrafficError};
use cavy_core::family::Node;

/// Distance of the seeds of two classes.
const CLASS: u64 = 0xd6e8_feb8_6659_fd93;

/// Open loops side by side. Messages of a host are submitted in the order of their times.
#[derive(Clone, Debug)]
pub struct Mixed {
    classes: Vec<OpenTraffic>,
    /// The next message of each host and class, once it was drawn: `next[host][class]`.
    next: Vec<Vec<Next>>,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Unknown,
    Drawn(Submission),
    None,
}

impl Mixed {
    /// The traffic among `hosts` hosts under `seed`. The first class draws the numbers that it
    /// draws alone.
    pub fn start(classes: &[OpenLoop], hosts: u32, seed: u64) -> Result<Mixed, TrafficError> {
        let of = |(number, open): (u64, &OpenLoop)| {
            open.clone().start(hosts, seed.wrapping_add(CLASS.wrapping_mul(number)))
        };
        let next = vec![vec![Next::Unknown; classes.len()]; hosts as usize];
        Ok(Mixed { classes: (0..).zip(classes).map(of).collect::<Result<_, _>>()?, next })
    }
}

impl Traffic for Mixed {
    fn next(&mut self, host: Node, now: Ps) -> Option<Submission> {
        let mut first: Option<(Submission, usize)> = None;
        for (class, next) in self.next[host.0 as usize].iter_mut().enumerate() {
            if matches!(next, Next::Unknown) {
                let drawn = self.classes[class].next(host, now);
                *next = drawn.map_or(Next::None, Next::Drawn);
            }
            if let Next::Drawn(one) = *next
                && first.is_none_or(|(known, _)| one.at < known.at)
            {
                first = Some((one, class));
            }
        }
        let (submission, class) = first?;
        self.next[host.0 as usize][class] = Next::Unknown;
        Some(submission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_workload::Sizes;

    #[test]
    fn classes_come_in_the_order_of_time_each_as_if_alone() {
        let open = |bytes, rate, class| OpenLoop {
            class,
            ..OpenLoop::all_to_all(3, Sizes::constant(bytes).expect("a size"), rate)
        };
        let classes = [open(10, 1e6, 0), open(20, 3e6, 1)];
        let mut mixed = Mixed::start(&classes, 3, 7).expect("legal");
        let all: Vec<Submission> = (0..40_000).map_while(|_| mixed.next(Node(1), 0)).collect();
        assert!(all.is_sorted_by_key(|one| one.at));
        let of = |class| all.iter().filter(move |one| one.class == class);
        let mut alone = classes[0].clone().start(3, 7).expect("legal");
        assert!(of(0).all(|one| Some(*one) == alone.next(Node(1), 0)));
        let (first, second) = (of(0).count() as f64, of(1).count() as f64);
        assert!((second / first / 3.0 - 1.0).abs() < 0.05, "{first} and {second}");
        assert!(of(1).all(|one| one.length_bytes == 20));
    }
}
