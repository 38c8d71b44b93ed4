//! What a prediction and an update of a coordinate cost, beside loops by hand ([htrae 5.4 H8]).
//!
//! The loops have plain arrays, no checks and no rule that is switched off. Sums of what was
//! predicted are printed, because a fast wrong answer is no floor. Aims: a prediction below 100 ns
//! among a million machines and at most 1.5 times its loop; an update at most 2 times its loop.

use cavy_bench::{in_turns, ns_per, print_machine};
use cavy_coords::predictors::serf::{Client, Coordinate as SerfCoordinate};
use cavy_coords::{Config, Coordinate, Point, predict_each, predict_ms, update};
use cavy_core::{Purpose, Stream};

const MACHINES: usize = 1_000_000;
const PAIRS: usize = 4_000_000;
const RADIUS_KM: f64 = 6371.0;

/// A machine that begins where a line of the cache does, so that it never lies in two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Aligned(Coordinate);

/// One machine of a loop by hand.
#[derive(Clone, Copy)]
struct Plain {
    at: [f64; 3],
    height_ms: f64,
    error: f64,
}

#[inline]
fn angle(a: [f64; 3], b: [f64; 3]) -> f64 {
    let cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let sin = (cross[0] * cross[0] + cross[1] * cross[1] + cross[2] * cross[2]).sqrt();
    // Of libm, as the room's own: that of the system differs by machine.
    libm::atan2(sin, a[0] * b[0] + a[1] * b[1] + a[2] * b[2])
}

/// [htrae 2.4] without a case that does not happen.
#[inline]
fn moved(own: &mut Plain, peer: &Plain, rtt_ms: f64, scale: f64) {
    let theta = angle(own.at, peer.at);
    let (way, heights) = (scale * theta, own.height_ms + peer.height_ms);
    let estimate = way + heights;
    let weight = own.error / (own.error + peer.error);
    let wrong = (estimate - rtt_ms).abs() / rtt_ms;
    own.error = (wrong * 0.25 * weight + own.error * (1.0 - 0.25 * weight)).clamp(0.01, 1.0);
    let step = 0.25 * weight * (rtt_ms - estimate);
    let turn = step * (way / estimate) / scale;
    let dot: f64 = own.at.iter().zip(&peer.at).map(|(a, b)| a * b).sum();
    let mut tangent = [0.0; 3];
    let mut square = 0.0;
    for axis in 0..3 {
        tangent[axis] = dot * own.at[axis] - peer.at[axis];
        square += tangent[axis] * tangent[axis];
    }
    let (sin, cos) = (libm::sin(turn), libm::cos(turn));
    let long = square.sqrt();
    let mut sum = 0.0;
    for axis in 0..3 {
        own.at[axis] = cos * own.at[axis] + sin * tangent[axis] / long;
        sum += own.at[axis] * own.at[axis];
    }
    own.at.iter_mut().for_each(|part| *part /= sum.sqrt());
    own.height_ms = (own.height_ms + step * (heights / estimate)).max(0.1);
}

fn main() {
    print_machine();
    let config = Config::default();
    let scale = config.line.ms_per_km * RADIUS_KM;
    let mut rng = Stream::keyed(1, 0, Purpose::Test);
    let machines: Vec<Coordinate> = (0..MACHINES)
        .map(|_| Coordinate {
            height_ms: 0.1 + 20.0 * rng.unit(),
            ..Coordinate::at(Point::random(&mut rng), 0, &config)
        })
        .collect();
    let plain: Vec<Plain> = machines
        .iter()
        .map(|one| Plain { at: one.position.vector(), height_ms: one.height_ms, error: one.error })
        .collect();
    let aligned: Vec<Aligned> = machines.iter().copied().map(Aligned).collect();
    let serf: Vec<SerfCoordinate> = (0..MACHINES)
        .map(|_| SerfCoordinate {
            place: std::array::from_fn(|_| 0.2 * (rng.unit() - 0.5)),
            height: 0.001 + 0.01 * rng.unit(),
            error: 0.2,
            adjustment: 0.001 * (rng.unit() - 0.5),
        })
        .collect();
    let mut draw = || rng.below(MACHINES as u64) as usize;
    let pairs: Vec<(usize, usize)> = (0..PAIRS).map(|_| (draw(), draw())).collect();
    let numbers: Vec<(u32, u32)> = pairs.iter().map(|(a, b)| (*a as u32, *b as u32)).collect();
    let sums = std::cell::Cell::new([0.0; 8]);
    let keep = |which: usize, sum: f64| {
        let mut all = sums.get();
        all[which] = sum;
        sums.set(all);
    };
    let predicted = in_turns(&mut [
        &mut || {
            ns_per(PAIRS as u64, || {
                let of =
                    |(a, b): &(usize, usize)| predict_ms(&machines[*a], &machines[*b], &config);
                keep(0, pairs.iter().map(of).sum());
            })
        },
        &mut || {
            ns_per(PAIRS as u64, || {
                let of = |(a, b): &(usize, usize)| {
                    let (a, b) = (&plain[*a], &plain[*b]);
                    scale * angle(a.at, b.at) + a.height_ms + b.height_ms
                };
                keep(1, pairs.iter().map(of).sum());
            })
        },
        &mut || {
            ns_per(PAIRS as u64, || {
                let of = |(a, b): &(usize, usize)| 1e3 * serf[*a].distance(&serf[*b]);
                keep(2, pairs.iter().map(of).sum());
            })
        },
        &mut || {
            ns_per(PAIRS as u64, || {
                let mut sum = 0.0;
                predict_each(&machines, &numbers, &config, |ms| sum += ms);
                keep(3, sum);
            })
        },
        &mut || {
            ns_per(PAIRS as u64, || {
                let of =
                    |(a, b): &(usize, usize)| predict_ms(&aligned[*a].0, &aligned[*b].0, &config);
                keep(4, pairs.iter().map(of).sum());
            })
        },
        // Of these the next pair is known when the last one was answered, so that the processor
        // cannot begin with it: the sign of what is positive is added to its number.
        &mut || {
            ns_per(PAIRS as u64, || {
                let (mut sum, mut sign) = (0.0, 0);
                for (a, b) in &pairs {
                    let ms = predict_ms(&aligned[*a + sign].0, &aligned[*b + sign].0, &config);
                    sign = (ms.to_bits() >> 63) as usize;
                    sum += ms;
                }
                keep(5, sum);
            })
        },
        &mut || {
            ns_per(PAIRS as u64, || {
                let (mut sum, mut sign) = (0.0, 0);
                for (a, b) in &pairs {
                    let ms = aligned[*a + sign].0.height_ms + aligned[*b + sign].0.height_ms;
                    sign = (ms.to_bits() >> 63) as usize;
                    sum += ms;
                }
                keep(6, sum);
            })
        },
        &mut || {
            ns_per(PAIRS as u64, || {
                let of =
                    |(a, b): &(usize, usize)| aligned[*a].0.height_ms + aligned[*b].0.height_ms;
                keep(7, pairs.iter().map(of).sum());
            })
        },
    ]);
    let [ours, by_hand, of_serf, together, in_lines, in_turn, heights, all_heights] = sums.get();
    assert_eq!((ours, heights), (in_lines, all_heights));
    assert_eq!(ours, in_turn);
    assert!((ours / by_hand - 1.0).abs() < 1e-9, "{ours} {by_hand}");
    assert_eq!(ours, together);
    let over = |which: usize| predicted[which] / predicted[1];
    println!("| among 10^6 machines, pairs at random | ns | over the loop |\n|---|---|---|");
    println!("| a prediction | {:.1} | {:.2} |", predicted[0], over(0));
    println!("| the same, each machine in one line | {:.1} | {:.2} |", predicted[4], over(4));
    println!("| each when the one before is answered | {:.1} | {:.2} |", predicted[5], over(5));
    println!("| only reading a line of both ends, so | {:.1} | {:.2} |", predicted[6], over(6));
    println!("| only reading a line of both ends | {:.1} | {:.2} |", predicted[7], over(7));
    println!("| of many, together | {:.1} | {:.2} |", predicted[3], over(3));
    println!("| the loop by hand | {:.1} | 1 |", predicted[1]);
    println!("| serf's distance in 8 dimensions | {:.1} | |", predicted[2]);
    println!("  sums {ours:.3e} {by_hand:.3e} {of_serf:.3e}");

    // 2,000 machines that learn from each other, so that what is measured is no waiting for memory.
    const FEW: usize = 2_000;
    const STEPS: usize = 1_000_000;
    let steps: Vec<(usize, usize, f64)> = (0..STEPS)
        .map(|_| {
            let (a, mut b) = (rng.below(FEW as u64) as usize, rng.below(FEW as u64) as usize);
            b += usize::from(a == b);
            let rtt_ms = predict_ms(&machines[a], &machines[b], &config) * (0.8 + 0.4 * rng.unit());
            (a, b, rtt_ms)
        })
        .collect();
    let ends = std::cell::Cell::new([0.0; 2]);
    let end = |which: usize, sum: f64| {
        let mut all = ends.get();
        all[which] = sum;
        ends.set(all);
    };
    let updated = in_turns(&mut [
        &mut || {
            let mut all = machines[..FEW + 1].to_vec();
            let mut rng = Stream::keyed(2, 0, Purpose::Test);
            ns_per(STEPS as u64, || {
                for (a, b, rtt_ms) in &steps {
                    let peer = all[*b];
                    update(&mut all[*a], &peer, *rtt_ms, &config, &mut rng);
                }
                end(0, all.iter().map(|one| one.height_ms).sum());
            })
        },
        &mut || {
            let mut all = plain[..FEW + 1].to_vec();
            ns_per(STEPS as u64, || {
                for (a, b, rtt_ms) in &steps {
                    let peer = all[*b];
                    moved(&mut all[*a], &peer, *rtt_ms, scale);
                }
                end(1, all.iter().map(|one| one.height_ms).sum());
            })
        },
        &mut || {
            let mut all: Vec<Client> = serf[..FEW + 1].iter().map(|one| Client::at(*one)).collect();
            let mut rng = Stream::keyed(2, 0, Purpose::Test);
            ns_per(STEPS as u64, || {
                for (a, b, rtt_ms) in &steps {
                    let peer = *all[*b].coordinate();
                    all[*a].update(*b as u32, &peer, rtt_ms / 1e3, &mut rng);
                }
            })
        },
    ]);
    let [ours, by_hand] = ends.get();
    assert!((ours / by_hand - 1.0).abs() < 1e-3, "{ours} {by_hand}");
    println!("\n| 2,000 machines that learn | ns | over the loop |\n|---|---|---|");
    println!("| an update | {:.1} | {:.2} |", updated[0], updated[0] / updated[1]);
    println!("| the loop by hand | {:.1} | 1 |", updated[1]);
    println!("| serf's, with its filter of each peer | {:.1} | |", updated[2]);
}
