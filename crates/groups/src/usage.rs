//! CPU time of a control group, right to the microsecond.
//!
//! The counters of cgroups and of `/proc` move by ticks of the kernel, 4 ms here: three quarters of
//! the samples of a spinning process taken each ms stand still ([slowpoke 0]). The kernel's
//! software clock for performance events does not, and two cores are read in 2 to 8 us.

use cavy_core::Span;
use perf_event::events::Software;
use perf_event::{Builder, Counter};
use std::fs::File;
use std::io;
use std::path::Path;

/// Counts the CPU time of all threads of a control group, on all cores.
pub struct Meter {
    counters: Vec<Counter>,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("cores", &self.counters.len()).finish()
    }
}

/// Cores that are online.
///
/// # Errors
/// When the system does not say.
pub fn cores() -> io::Result<Vec<usize>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => cores.extend(first..=last),
            _ => return Err(io::Error::other(format!("`{text}` is no list of cores"))),
        }
    }
    Ok(cores)
}

impl Meter {
    /// Of the control group in `dir`, from now on.
    ///
    /// # Errors
    /// Without the right to read performance events, or where the kernel has none by cgroup.
    pub fn open(dir: &Path) -> io::Result<Meter> {
        let group = File::open(dir)?;
        let open = |core: usize| {
            let mut builder = Builder::new(Software::TASK_CLOCK);
            builder.observe_cgroup(&group).one_cpu(core);
            builder.include_kernel().include_hv();
            let mut counter = builder.build()?;
            counter.enable()?;
            Ok(counter)
        };
        Ok(Meter { counters: cores()?.into_iter().map(open).collect::<io::Result<_>>()? })
    }

    /// CPU time since it was opened.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&mut self) -> io::Result<Span> {
        let mut ns = 0;
        for counter in &mut self.counters {
            ns += counter.read()?;
        }
        Ok(Span::from_ns(ns))
    }
}
