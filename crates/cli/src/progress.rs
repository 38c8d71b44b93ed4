//! Progress on stderr: a line that is redrawn on a terminal, a line now and then elsewhere.

use crate::Clock;
use crate::forecast::{Forecast, duration};
use crate::terminal;
use cavy_study::runner::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Redraws a second, at most.
const REDRAWS_HZ: u8 = 5;
/// Seconds between lines where nothing can be redrawn.
const LINE_EVERY_S: f64 = 15.0;

/// Where progress is told: a bar that is redrawn, or nothing but a line now and then.
struct Line {
    bar: Option<ProgressBar>,
}

impl Line {
    fn new() -> Line {
        let bar = terminal::can_redraw().then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ);
            let bar = ProgressBar::with_draw_target(Some(1), target);
            let style = ProgressStyle::with_template("{bar:24} {prefix} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━╸ ");
            bar.set_style(style);
            bar
        });
        Line { bar }
    }

    /// Shows that `done` of `all` are done. Where nothing can be redrawn, only what is later than
    /// the last line by a while, which is then the last line.
    fn show(
        &self,
        (done, all): (u64, u64),
        words: &str,
        doing: &str,
        now_s: f64,
        last_s: &mut f64,
    ) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(all.max(1));
                bar.set_position(done.min(all));
                bar.set_prefix(words.to_string());
                bar.set_message(doing.to_string());
            }
            None if now_s - *last_s >= LINE_EVERY_S => {
                *last_s = now_s;
                terminal::talk(&format!("progress: {words}"));
            }
            None => {}
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Tells how far work is that comes in parts, one after the other, whose size is known.
pub struct Gauge {
    clock: Clock,
    line: Line,
    doing: &'static str,
    began_s: f64,
    last_line_s: f64,
}

impl Gauge {
    /// Work begins.
    pub fn new(clock: Clock) -> Gauge {
        let now_s = clock.elapsed_s();
        Gauge { clock, line: Line::new(), doing: "", began_s: now_s, last_line_s: now_s }
    }

    /// So much of this part is done.
    pub fn tell(&mut self, doing: &'static str, done: u64, all: u64) {
        let now_s = self.clock.elapsed_s();
        if self.doing != doing {
            (self.doing, self.began_s) = (doing, now_s);
        }
        let words = part(doing, done, all, now_s - self.began_s);
        self.line.show((done, all), &words, "", now_s, &mut self.last_line_s);
    }
}

/// Leaves the terminal clean.
impl Drop for Gauge {
    fn drop(&mut self) {
        self.line.end();
    }
}

/// How far a part is after so many seconds: `fitting: 25 %, about 12 s left`.
fn part(doing: &str, done: u64, all: u64, spent_s: f64) -> String {
    let share = done as f64 / all.max(1) as f64;
    // Of so little nobody knows how long the rest takes.
    if share < 0.01 {
        return format!("{doing}: 0 %");
    }
    let left = duration((spent_s / share * (1.0 - share)).max(1.0));
    format!("{doing}: {:.0} %, about {left} left", 100.0 * share)
}

/// Hears how work goes on, and tells.
pub struct Meter {
    clock: Clock,
    jobs: usize,
    line: Line,
    tally: Mutex<Tally>,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    /// Seconds on the clock when work began.
    began_s: f64,
    /// Runs expected, those kept from an earlier run included.
    runs: usize,
    /// Runs finished, likewise.
    done: usize,
    /// Seconds of one core still expected at the beginning.
    core_s: f64,
    /// Seconds of one core that finished runs were expected to take.
    done_core_s: f64,
    /// Seconds on the clock when the last run finished.
    last_done_s: f64,
    /// Seconds on the clock when the last line was printed.
    last_line_s: f64,
    doing: String,
}

impl Tally {
    /// Seconds left, from the estimate and from how fast work went so far.
    fn left_s(&self, now_s: f64, jobs: usize) -> f64 {
        // The estimate counts like this many seconds of experience.
        const PRIOR_S: f64 = 2.0;
        let jobs = jobs.max(1) as f64;
        let spent_s = self.last_done_s - self.began_s;
        let speed = (self.done_core_s + PRIOR_S * jobs) / (spent_s + PRIOR_S);
        let ahead = (self.core_s - self.done_core_s).max(0.0) / speed;
        (ahead - (now_s - self.last_done_s)).max(1.0)
    }

    fn words(&self, now_s: f64, jobs: usize) -> String {
        let runs = self.runs.max(self.done);
        let left = duration(self.left_s(now_s, jobs));
        format!("{} of {runs} runs, about {left} left", self.done)
    }
}

impl Meter {
    /// A meter for work on `jobs` cores.
    pub fn new(clock: Clock, jobs: usize) -> Self {
        Meter { clock, jobs, line: Line::new(), tally: Mutex::default() }
    }

    /// Work begins that will cost about `estimate`.
    pub fn begin(&self, estimate: &Forecast) {
        let now_s = self.clock.elapsed_s();
        let cost = &estimate.cost;
        self.change(|tally| {
            *tally = Tally {
                began_s: now_s,
                runs: cost.runs() + cost.kept,
                done: cost.kept,
                core_s: cost.left_core_s(),
                last_done_s: now_s,
                last_line_s: now_s,
                ..Tally::default()
            };
        });
        if let Some(bar) = &self.line.bar {
            bar.enable_steady_tick(Duration::from_millis(1000 / u64::from(REDRAWS_HZ)));
        }
    }

    /// Work is over; leaves the terminal clean.
    pub fn end(&self) {
        self.line.end();
    }

    /// Runs finished, and runs expected.
    pub fn done(&self) -> (usize, usize) {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        (tally.done, tally.runs.max(tally.done))
    }

    /// Changes the tally and shows it.
    fn change(&self, how: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        how(&mut tally);
        let now_s = self.clock.elapsed_s();
        let all = (tally.core_s * 1e3).max(1.0) as u64;
        let done = (tally.done_core_s.min(tally.core_s) * 1e3) as u64;
        let words = tally.words(now_s, self.jobs);
        let Tally { doing, last_line_s, .. } = &mut *tally;
        self.line.show((done, all), &words, doing, now_s, last_line_s);
    }
}

impl Progress for Meter {
    fn done(&self, core_s: f64) {
        let now_s = self.clock.elapsed_s();
        self.change(|tally| {
            tally.done += 1;
            tally.done_core_s += core_s;
            tally.last_done_s = now_s;
        });
    }

    fn doing(&self, what: &str) {
        self.change(|tally| what.clone_into(&mut tally.doing));
    }
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_part_takes_as_long_as_what_is_done_of_it_says() {
        assert_eq!(part("fitting", 25, 100, 4.0), "fitting: 25 %, about 12 s left");
        assert_eq!(part("fitting", 0, 0, 0.0), "fitting: 0 %");
        assert_eq!(part("fitting", 100, 100, 9.0), "fitting: 100 %, about 1 s left");
    }
}
