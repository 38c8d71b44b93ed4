//! What one study comes to.

use crate::finding::{Finding, Quiet};
use crate::weather::Weather;
use cavy_lab::statistics::quantile;
use cavy_report::model::Figure;

/// Figures, values and circumstances.
#[derive(Default)]
pub struct Part {
    /// To look at.
    pub figures: Vec<Figure>,
    /// To hold against claims.
    pub findings: Vec<Finding>,
    /// To know.
    pub facts: Vec<(String, String)>,
    /// What the machine was like, run by run.
    pub heard: Vec<Heard>,
}

/// What the machine was like during one run.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    /// Its jitter, and how the generator was scheduled.
    pub weather: Weather,
    /// There are doubts about it.
    pub doubted: bool,
    /// The fingerprint of what was sent.
    pub schedule: u64,
}

impl Part {
    /// Medians over the runs.
    pub fn quiet(&self) -> Quiet {
        let median = |of: fn(&Weather) -> Option<f64>| {
            quantile::median(self.heard.iter().filter_map(|heard| of(&heard.weather)))
        };
        let doubted = self.heard.iter().filter(|heard| heard.doubted).count();
        Quiet {
            noise_us: median(|weather| weather.met_p999_us),
            stalled_ratio: median(|weather| weather.stalled_ratio),
            doubted_ratio: doubted as f64 / self.heard.len().max(1) as f64,
        }
    }

    /// How the generator's thread was scheduled, in words.
    pub fn generator(&self) -> &'static str {
        if self.heard.first().is_some_and(|heard| heard.weather.goes_first) {
            "its thread goes before those of the pools (SCHED_FIFO), so that they do not make it \
             late"
        } else {
            "an ordinary thread, which busy pools make late: going first was not permitted (root \
             or CAP_SYS_NICE)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_as_quiet_as_its_median_run() {
        let heard = |met_p999_us, doubted| Heard {
            weather: Weather { met_p999_us, ..Weather::default() },
            doubted,
            schedule: 0,
        };
        let runs = [heard(Some(3.0), true), heard(None, false), heard(Some(1.0), false)];
        let part = Part { heard: runs.to_vec(), ..Part::default() };
        let quiet = part.quiet();
        assert_eq!((quiet.noise_us, quiet.stalled_ratio), (Some(2.0), None));
        assert!((quiet.doubted_ratio - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(Part::default().quiet().doubted_ratio, 0.0);
    }
}
