//! Burns CPU time with pauses in between, and tells how much it had used when: what readings of CPU
//! time are held against. `duty BURN_US REST_US`; it ends with its input.

use cavy_core::Span;
use cavy_groups::now;
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufWriter, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Between two entries of the log while it burns.
const STEP: Span = Span::from_us(10);

/// CPU time of this thread, in nanoseconds.
fn used_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn main() -> std::io::Result<()> {
    let words: Vec<u64> = std::env::args_os()
        .skip(1)
        .filter_map(|word| word.to_str().and_then(|text| text.parse().ok()))
        .collect();
    let [burn_us, rest_us] = words[..] else {
        return Err(std::io::Error::other("write: duty BURN_US REST_US"));
    };
    let over = AtomicBool::new(false);
    let log = std::thread::scope(|scope| {
        let burner = scope.spawn(|| {
            let mut log = Vec::with_capacity(1 << 20);
            while !over.load(Ordering::Relaxed) {
                let begun_ns = used_ns();
                let mut next_ns = begun_ns;
                loop {
                    let used_ns = used_ns();
                    if used_ns >= next_ns && log.len() < log.capacity() {
                        log.push((now().as_ns(), used_ns));
                        next_ns = used_ns + STEP.as_ns();
                    }
                    if used_ns >= begun_ns + burn_us * 1_000 {
                        break;
                    }
                }
                std::thread::sleep(std::time::Duration::from_micros(rest_us));
            }
            log
        });
        let mut rest = Vec::new();
        let read = std::io::stdin().read_to_end(&mut rest);
        over.store(true, Ordering::Relaxed);
        let log = burner.join().unwrap_or_default();
        read.map(|_| log)
    })?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (at_ns, used_ns) in log {
        writeln!(out, "{at_ns} {used_ns}")?;
    }
    out.flush()
}
