//! serf's model of coordinates here, in serf's own Go package and in the crate `vivaldi-nc`: the
//! same coordinates, the same pairs, in turns.
//!
//! `benches/peers/vivaldi.sh` builds the Go program, whose path is the argument; without it those
//! rows are missing. Predictions are compared before times are printed; `vivaldi-nc` has no
//! adjustment term, so its coordinates have none here either.

use cavy_coords::predictors::serf::{Client, Coordinate};
use cavy_core::{Purpose, Stream};
use cpu_time::ThreadTime;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use vivaldi_nc::NetworkCoordinate;

const MACHINES: usize = 1_000_000;
const PAIRS: usize = 2_000_000;
const FEW: usize = 2_000;
const STEPS: usize = 500_000;
/// Measurements of each, an odd number.
const TURNS: usize = 5;

/// CPU nanoseconds of this thread for each of so many operations.
fn ns_per(operations: usize, work: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    work();
    start.elapsed().as_nanos() as f64 / operations as f64
}

fn median(mut measurements: Vec<f64>) -> f64 {
    measurements.sort_by(f64::total_cmp);
    measurements[measurements.len() / 2]
}

/// The program of Go, which measures itself and says nanoseconds and a sum.
struct Go {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Go {
    fn start(program: &str, file: &std::path::Path) -> (Go, String) {
        let mut child = Command::new(program)
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut go = Go { child, to, from: BufReader::new(from) };
        let version = go.line();
        (go, version)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the program of Go answers");
        line.trim().to_string()
    }

    /// Nanoseconds of each operation, and the sum of what was predicted.
    fn ask(&mut self, what: &str) -> (f64, f64) {
        writeln!(self.to, "{what}").expect("the program of Go listens");
        let line = self.line();
        let (ns, sum) = line.split_once(' ').unwrap_or_else(|| panic!("Go says {line:?}"));
        (ns.parse().expect("nanoseconds"), sum.parse().expect("a sum"))
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of the crate, whose fields are set by their JSON alone; milliseconds.
fn of_crate(one: &Coordinate) -> NetworkCoordinate<8> {
    let value = serde_json::json!({
        "position": one.place.map(|part| 1e3 * part),
        "height": 1e3 * one.height,
        "error": one.error,
    });
    serde_json::from_value(value).expect("a coordinate")
}

/// All that the program of Go needs, little-endian.
fn write(
    file: &std::path::Path,
    machines: &[Coordinate],
    pairs: &[(u32, u32)],
    steps: &[(u32, u32, f64)],
) -> std::io::Result<()> {
    let mut to = BufWriter::new(std::fs::File::create(file)?);
    for count in [machines.len(), pairs.len(), FEW + 1, steps.len()] {
        to.write_all(&(count as u32).to_le_bytes())?;
    }
    for one in machines {
        let rest = [one.height, one.error, one.adjustment];
        for part in one.place.iter().chain(&rest) {
            to.write_all(&part.to_le_bytes())?;
        }
    }
    for (a, b) in pairs {
        to.write_all(&a.to_le_bytes())?;
        to.write_all(&b.to_le_bytes())?;
    }
    for (a, b, rtt_s) in steps {
        to.write_all(&a.to_le_bytes())?;
        to.write_all(&b.to_le_bytes())?;
        to.write_all(&rtt_s.to_le_bytes())?;
    }
    to.flush()
}

fn main() {
    println!("# CPU time, median of {TURNS} turns");
    let program = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let mut rng = Stream::keyed(1, 0, Purpose::Test);
    let machines: Vec<Coordinate> = (0..MACHINES)
        .map(|_| Coordinate {
            place: std::array::from_fn(|_| 0.2 * (rng.unit() - 0.5)),
            height: 0.001 + 0.01 * rng.unit(),
            error: 0.2,
            adjustment: 0.0,
        })
        .collect();
    let crates: Vec<NetworkCoordinate<8>> = machines.iter().map(of_crate).collect();
    let mut pairs = |among: usize| -> Vec<(u32, u32)> {
        let mut draw = || rng.below(among as u64) as u32;
        (0..PAIRS).map(|_| (draw(), draw())).collect()
    };
    let (pairs, near) = (pairs(MACHINES), pairs(FEW));
    let mut rng = Stream::keyed(2, 0, Purpose::Test);
    let steps: Vec<(u32, u32, f64)> = (0..STEPS)
        .map(|_| {
            let (a, mut b) = (rng.below(FEW as u64) as u32, rng.below(FEW as u64) as u32);
            b += u32::from(a == b);
            let rtt_s = machines[a as usize].distance(&machines[b as usize]);
            // Go takes whole nanoseconds.
            (a, b, (1e9 * rtt_s * (0.8 + 0.4 * rng.unit())).round() / 1e9)
        })
        .collect();

    let file = std::env::temp_dir().join(format!("cavy-vivaldi-{}", std::process::id()));
    let all_pairs: Vec<(u32, u32)> = pairs.iter().chain(&near).copied().collect();
    let mut go = program.map(|program| {
        write(&file, &machines, &all_pairs, &steps).expect("a file for the program of Go");
        let (go, version) = Go::start(&program, &file);
        println!("# {version}");
        go
    });
    let mut of_go: [Vec<f64>; 3] = Default::default();
    let (mut sums, mut sums_of_go) = ([[0.0_f64; 2]; 3], [0.0_f64; 3]);
    let mut measured: [[Vec<f64>; 2]; 3] = Default::default();
    for _ in 0..TURNS {
        for (which, pairs) in [&pairs, &near].into_iter().enumerate() {
            let ours = ns_per(PAIRS, || {
                let of =
                    |(a, b): &(u32, u32)| machines[*a as usize].distance(&machines[*b as usize]);
                sums[which][0] = pairs.iter().map(of).sum();
            });
            let theirs = ns_per(PAIRS, || {
                let of = |(a, b): &(u32, u32)| {
                    crates[*a as usize].estimated_rtt(&crates[*b as usize]).as_secs_f64()
                };
                sums[which][1] = pairs.iter().map(of).sum();
            });
            measured[which][0].push(ours);
            measured[which][1].push(theirs);
            if let Some(go) = &mut go {
                let (ns, sum) = go.ask(["far", "near"][which]);
                of_go[which].push(ns);
                sums_of_go[which] = sum;
            }
        }
        let mut all: Vec<Client> = machines[..FEW + 1].iter().map(|one| Client::at(*one)).collect();
        let mut rng = Stream::keyed(3, 0, Purpose::Test);
        measured[2][0].push(ns_per(STEPS, || {
            for (a, b, rtt_s) in &steps {
                let peer = *all[*b as usize].coordinate();
                all[*a as usize].update(*b, &peer, *rtt_s, &mut rng);
            }
        }));
        sums[2][0] = all.iter().map(|one| one.coordinate().height).sum();
        let mut all = crates[..FEW + 1].to_vec();
        measured[2][1].push(ns_per(STEPS, || {
            for (a, b, rtt_s) in &steps {
                let peer = all[*b as usize].clone();
                all[*a as usize].update(&peer, Duration::from_secs_f64(*rtt_s));
            }
        }));
        if let Some(go) = &mut go {
            let (ns, sum) = go.ask("update");
            of_go[2].push(ns);
            sums_of_go[2] = sum;
        }
    }
    drop(go);
    let _ = std::fs::remove_file(&file);
    for which in 0..2 {
        let [ours, theirs] = sums[which];
        assert!((theirs / ours - 1.0).abs() < 1e-6, "{ours} {theirs}");
    }
    for (ours, of_go) in sums.iter().zip(sums_of_go).filter(|(_, of_go)| *of_go != 0.0) {
        assert!((of_go / ours[0] - 1.0).abs() < 1e-6, "{ours:?} {of_go}");
    }
    println!("| in 8 dimensions, ns | here | vivaldi-nc | serf in Go |\n|---|---|---|---|");
    let rows = ["a distance, pairs of 10^6 at random", "a distance among 2,000", "an update"];
    for ((row, measured), of_go) in rows.iter().zip(measured).zip(of_go) {
        let [ours, theirs] = measured.map(median);
        let of_go = match of_go.is_empty() {
            true => "not measured".to_string(),
            false => format!("{:.1}", median(of_go)),
        };
        println!("| {row} | {ours:.1} | {theirs:.1} | {of_go} |");
    }
}
