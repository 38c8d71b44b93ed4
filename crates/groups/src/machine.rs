//! What else this machine did meanwhile: whose processor time it was, and what the hypervisor took.

use cavy_core::Span;
use serde::{Deserialize, Serialize};

/// Counters of all cores and of this program at a moment, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    stolen: u64,
    all: u64,
    busy: u64,
    own: u64,
}

/// Shares of the processor time of all cores between two moments, each 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Weather {
    /// Taken by the hypervisor.
    pub steal_ratio: f64,
    /// Used by anybody.
    pub busy_ratio: f64,
    /// Used by this program: its clients and what drives the pauses.
    pub own_ratio: f64,
    /// Used by programs that are neither this one nor a service.
    pub others_ratio: f64,
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = procfs::process::Process::myself().and_then(|own| own.stat());
        Moment::of(&text, own.map_or(0, |stat| stat.utime + stat.stime))
    }

    fn of(stat: &str, own: u64) -> Moment {
        let first = stat.lines().next().unwrap_or("");
        let ticks: Vec<u64> =
            first.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        let busy = at(0) + at(1) + at(2) + at(5) + at(6);
        Moment { stolen: at(7), all: ticks.iter().take(8).sum(), busy, own }
    }

    /// CPU time of this program since `before`.
    pub fn own_since(&self, before: &Moment) -> Span {
        let ticks = self.own.saturating_sub(before.own);
        Span::from_ms(ticks * 1_000 / procfs::ticks_per_second().max(1))
    }

    /// What was since `before`, in which services used `services` of CPU time.
    pub fn since(&self, before: &Moment, services: Span) -> Weather {
        let all = self.all.saturating_sub(before.all).max(1) as f64;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / all;
        let ticks = services.as_us() * procfs::ticks_per_second() as f64 / 1e6;
        let (busy_ratio, own_ratio) = (share(self.busy, before.busy), share(self.own, before.own));
        Weather {
            steal_ratio: share(self.stolen, before.stolen),
            busy_ratio,
            own_ratio,
            others_ratio: (busy_ratio - own_ratio - ticks / all).max(0.0),
        }
    }
}

impl Weather {
    /// The mean of several, each value for itself; all zero of none.
    pub fn mean(all: &[Weather]) -> Weather {
        let of =
            |get: fn(&Weather) -> f64| all.iter().map(get).sum::<f64>() / (all.len().max(1)) as f64;
        Weather {
            steal_ratio: of(|one| one.steal_ratio),
            busy_ratio: of(|one| one.busy_ratio),
            own_ratio: of(|one| one.own_ratio),
            others_ratio: of(|one| one.others_ratio),
        }
    }

    /// A share of processor time that went to other programs above which a result is in doubt:
    /// while services stand they get the cores, and keep them for some milliseconds after.
    pub const OTHERS_MAX: f64 = 0.1;
    /// The same for what the hypervisor took.
    pub const STEAL_MAX: f64 = 0.05;

    /// Did others leave the machine to what is measured?
    pub fn quiet(&self) -> bool {
        self.others_ratio <= Weather::OTHERS_MAX && self.steal_ratio <= Weather::STEAL_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_took_is_what_neither_services_nor_this_program_did() {
        let before = Moment::of("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1", 10);
        let after = Moment::of("cpu  160 10 120 895 0 0 5 10 0 0\ncpu0 1", 30);
        // 200 ticks passed: 95 busy, 20 of them ours; 50 are the services'.
        let services = Span::from_ms(50_000 / procfs::ticks_per_second());
        let weather = after.since(&before, services);
        assert!((weather.busy_ratio - 0.475).abs() < 1e-9, "{weather:?}");
        assert!((weather.own_ratio - 0.1).abs() < 1e-9, "{weather:?}");
        assert!((weather.steal_ratio - 0.05).abs() < 1e-9, "{weather:?}");
        assert!((weather.others_ratio - 0.125).abs() < 1e-9, "{weather:?}");
        assert!(!weather.quiet());
        assert!(Weather::default().quiet());
        assert_eq!(Weather::mean(&[]), Weather::default());
    }

    #[test]
    fn counters_of_this_machine_grow() {
        let before = Moment::now();
        let until = crate::now() + Span::from_ms(60);
        while crate::now() < until {}
        let after = Moment::now();
        assert!(after.own_since(&before) >= Span::from_ms(10));
        let weather = after.since(&before, Span::ZERO);
        assert!(weather.busy_ratio > 0.0 && weather.own_ratio > 0.0, "{weather:?}");
    }
}
