//! Predictions for an application of others, written down before the change, and then its truth.
//!
//! For each point: by which share the change makes its tier faster is measured on a second
//! deployment, of which only the CPU time of that tier is looked at. Then rounds on the first
//! deployment, each in this order: what the change buys is predicted by windows of pauses, without
//! the change being there; that is written to a file with its digest; then the change is made and
//! unmade in windows of the order without, with, with, without, under the same clients. So
//! prediction and truth meet the same weather, and no truth is known before its prediction is on
//! disk.
//!
//! **How long windows are.** Without opcache there are eight answers a second, with it fifty. So
//! the pace is set for each point anew, and for the changed application by its own answers
//! ([`cavy_groups::pace`]).
//!
//! **Checks of the study itself.** The unchanged application is measured twice in each round, for
//! the prediction and for the truth: both must agree. CPU time for a request is counted in windows
//! of truth as well: where all cores are busy, throughput can only grow as CPU time for a request
//! shrinks, so a truth that differs from that is weather and not the change. And the share by which
//! the tier was faster under load stands beside the one measured alone, which the prediction went
//! by.
//!
//! **How fast the machine was** is looked at beside all windows ([`cavy_groups::speed`]). Windows
//! of the unchanged application, before all points, say how far they differ and how throughput goes
//! with that speed ([`unchanged`]). Gains as if the machine had been as fast in all windows stand
//! beside those that are judged: reads of memory are slower beside some applications than beside
//! others, and a change of the application would count as weather.
//!
//! Nothing here asks for more of the machine than an ordinary program gets: no priority or weight
//! for the application and its clients. Only the thread that ends pauses goes before others.

mod ledger;
mod truth;
pub mod unchanged;

use crate::packages::Tree;
use crate::tier::Alone;
use crate::wordpress::{PACKAGES, Settings, Tier, Wordpress};
use cavy_core::Span;
use cavy_groups::clients::{Clients, Headed, Load};
use cavy_groups::freezer::Mechanism;
use cavy_groups::guard::Guard;
use cavy_groups::machine::Weather;
use cavy_groups::pace::Pace;
use cavy_groups::rank::{Bench, Estimate, Options, Prediction, Ranking, Rule};
use cavy_groups::refuse::Mounts;
use cavy_groups::select::Selector;
use cavy_groups::stage::Stage;
use cavy_groups::usage::Meter;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use ledger::Ledger;
pub use ledger::verify;
pub use truth::Seen;
use truth::{Truth, judge, windows};
use unchanged::{Kind, Unchanged, bases};

/// What clients ask for: the feed of the newest ten posts, which every WordPress has.
const PAGE: &str = "/?feed=rss2";
/// Rounds of the knob of PHP when it is fully on, of about as much CPU time as the page.
const PHP_BURN: u32 = 60_000;
/// The same for the database.
const DATABASE_BURN: u32 = 40_000;
/// Answers for each client before anything is counted after a change ([slowpoke 2.7]). Those also
/// make each process of PHP read all scripts again after a reload.
const WARM_UP: u32 = 2;
/// Answers for each client before the first window of all, 12 s: MariaDB took up to twice its time
/// for some seconds after it was filled.
const WARM_UP_FIRST: u32 = 25;
/// No window is longer, however few answers there are.
const WINDOW_MAX: Span = Span::from_ms(30_000);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Fewer points.
    pub quick: bool,
    /// Only these points, by name; all when empty.
    pub points: Vec<String>,
    /// Rounds of each point, at least 2.
    pub rounds: u32,
    /// The least for windows.
    pub pace: Pace,
    /// Answers that a window holds at least.
    pub answers: u32,
    /// Without a ranking of all tiers before the points.
    pub points_only: bool,
    /// Clients, each with one request under way.
    pub clients: u32,
    /// Requests without a point's change, and as many with it, in which its tier is measured alone;
    /// a third of them where processes start anew for the change.
    pub alone: u32,
    /// Windows of each unchanged application before the points; none when 0.
    pub unchanged: u32,
    /// Begin no further round after so much time; what there is then is reported.
    pub at_most: Option<Span>,
    /// Where predictions and the result are written.
    pub out: PathBuf,
    /// Where packages are kept; a folder that is removed in the end when `None`.
    pub packages: Option<PathBuf>,
    /// Keep what an earlier study has left in `out`, and measure what that lacks.
    pub resume: bool,
}

/// One change whose worth is predicted and then measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its name.
    pub name: String,
    /// What it makes faster.
    pub target: Tier,
    /// An optimisation that people make, and no burn that is taken away.
    pub real: bool,
    /// Before.
    pub before: Settings,
    /// After.
    pub after: Settings,
}

impl Point {
    /// All points, or those of a quick run.
    pub fn all(quick: bool) -> Vec<Point> {
        let plain = Settings::default();
        let mut points = Vec::new();
        let shares: &[u32] = if quick { &[50, 100] } else { &[25, 50, 75, 100] };
        for share in shares {
            let left = |full: u32| full - full / 100 * share;
            let (php, database) = (
                Settings { php_burn: PHP_BURN, ..plain },
                Settings { database_burn: DATABASE_BURN, ..plain },
            );
            if !quick || *share == 50 {
                points.push(Point {
                    name: format!("php-{share}"),
                    target: Tier::Php,
                    real: false,
                    before: php,
                    after: Settings { php_burn: left(PHP_BURN), ..php },
                });
            }
            if !quick || *share == 100 {
                points.push(Point {
                    name: format!("mariadb-{share}"),
                    target: Tier::Database,
                    real: false,
                    before: database,
                    after: Settings { database_burn: left(DATABASE_BURN), ..database },
                });
            }
        }
        let mut real = |name: &str, target, before: Settings, after: Settings| {
            points.push(Point { name: name.to_string(), target, real: true, before, after });
        };
        real("opcache", Tier::Php, Settings { opcache: false, ..plain }, plain);
        real("index", Tier::Database, Settings { index: false, ..plain }, plain);
        if !quick {
            real(
                "gzip",
                Tier::Web,
                Settings { gzip_level: 9, ..plain },
                Settings { gzip_level: 1, ..plain },
            );
        }
        points
    }
}

/// A point with all that became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// The change.
    pub point: Point,
    /// CPU microseconds of the tier for a request without and with the change, measured alone.
    pub alone_us: [f64; 2],
    /// The gain that was predicted and the true one as if the machine had been as fast in all
    /// windows, percent; `None` where the study knows nothing of that.
    pub evened: Option<[Estimate; 2]>,
    /// The error of those, percent.
    pub error_evened_percent: Option<f64>,
    /// By how much arithmetic and reads of the machine were faster with the change than without,
    /// percent: what the change does to the machine, and no weather, if it is far from zero.
    pub rates_percent: Option<[Estimate; 2]>,
    /// By how much the change makes the tier faster under the clients' load, percent of its CPU
    /// time; known only afterwards.
    pub faster_loaded_percent: Option<f64>,
    /// What was predicted, over all rounds.
    pub prediction: Prediction,
    /// The digest under which the last round's prediction was written down; it covers all before.
    pub digest: String,
    /// What the change truly gained in throughput, percent.
    pub truth_percent: Option<Estimate>,
    /// What it would have gained if throughput had grown as CPU time for a request shrank, percent.
    pub truth_by_cpu_percent: Option<Estimate>,
    /// Throughput of the unchanged application beside its changes over that beside the pauses, less
    /// one, percent: zero where the study agrees with itself.
    pub base_percent: Option<Estimate>,
    /// The machine in windows of truth.
    pub weather: Weather,
    /// Rounds that were left out because other programs or the hypervisor took too much.
    pub left_out: u32,
    /// Predicted less true throughput, percent of the true one.
    pub error_percent: Option<f64>,
    /// The same if the share under load had been known, on the line from no change through what was
    /// predicted: it tells an error of the share from one of the method.
    pub error_as_loaded_percent: Option<f64>,
    /// The same for "nothing changes".
    pub no_change_error_percent: Option<f64>,
    /// The same for the utilisation law with measured CPU time.
    pub law_error_percent: Option<f64>,
    /// The windows of truth, in the order of the rounds.
    pub seen: Vec<Seen>,
    /// Requests that failed in all its rounds.
    pub failed: u64,
    /// Reasons to doubt the comparison, beside those of the prediction.
    pub doubts: Vec<String>,
}

/// What a study found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Programs and their versions.
    pub programs: Vec<String>,
    /// All tiers of the plain application by what making them faster would buy; `None` when only
    /// points were asked for.
    pub ranking: Option<Ranking>,
    /// Windows of the unchanged application, where they were asked for.
    pub unchanged: Option<Unchanged>,
    /// All points.
    pub points: Vec<Judged>,
    /// Points that were not measured, and why.
    #[serde(default)]
    pub not_measured: Vec<NotMeasured>,
    /// The machine, over all rounds.
    pub weather: Weather,
    /// The time that was given was over before all rounds were.
    pub cut_short: bool,
    /// It was interrupted.
    pub interrupted: bool,
}

/// A point that was not measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NotMeasured {
    /// Its name.
    pub point: String,
    /// CPU microseconds of the tier for a request without and with the change, measured alone.
    pub alone_us: [f64; 2],
    /// Why.
    pub why: String,
}

/// Errors of several points.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Errors {
    /// How many.
    pub points: usize,
    /// Mean of absolute errors, percent.
    pub mean: f64,
    /// The worst, percent.
    pub worst: f64,
    /// Mean of absolute errors of "nothing changes", percent.
    pub no_change: f64,
    /// Mean of absolute errors of the utilisation law, percent.
    pub law: f64,
    /// 1 less the error's share of that of "nothing changes".
    pub skill: f64,
}

impl Outcome {
    /// What an earlier study has left in `folder`, if any did.
    fn left_in(folder: &Path) -> Result<Option<Outcome>, String> {
        let file = folder.join("result.json");
        let text = match fs::read_to_string(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| format!("{}: {error}", file.display()))?,
        };
        let mut outcome: Outcome = serde_json::from_str(&text).map_err(|error| {
            format!("{} is no result of a study: {error}; begin without --resume", file.display())
        })?;
        (outcome.interrupted, outcome.cut_short) = (false, false);
        Ok(Some(outcome))
    }

    /// Is `point` there with so many rounds?
    fn has(&self, point: &Point, rounds: u32) -> bool {
        let enough = |one: &Judged| one.point == *point && one.prediction.row.rounds >= rounds;
        self.points.iter().any(enough)
    }

    /// Adds a point, in the place of one of its name.
    fn add(&mut self, judged: Judged) {
        self.points.retain(|one| one.point.name != judged.point.name);
        self.not_measured.retain(|one| one.point != judged.point.name);
        self.points.push(judged);
    }

    /// Writes all there is until now to `folder`, so that an end at any time leaves it.
    fn keep(&mut self, folder: &Path) -> Result<(), String> {
        let of_points =
            self.points.iter().flat_map(|one| [one.weather, one.prediction.row.weather]);
        let of_ranking = self.ranking.iter().flat_map(|one| &one.rows).map(|row| row.weather);
        self.weather = Weather::mean(&of_points.chain(of_ranking).collect::<Vec<_>>());
        let (new, file) = (folder.join("result.json.new"), folder.join("result.json"));
        let text = serde_json::to_string_pretty(&self).map_err(|error| error.to_string())?;
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &file));
        written.map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Errors over knobs or over real optimisations; `None` without any.
    pub fn errors(&self, real: bool) -> Option<Errors> {
        let rows: Vec<[f64; 3]> = self
            .points
            .iter()
            .filter(|judged| judged.point.real == real)
            .filter_map(|one| {
                Some([one.error_percent?, one.no_change_error_percent?, one.law_error_percent?])
            })
            .map(|row| row.map(f64::abs))
            .collect();
        if rows.is_empty() {
            return None;
        }
        let mean = |at: usize| rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64;
        Some(Errors {
            points: rows.len(),
            mean: mean(0),
            worst: rows.iter().map(|row| row[0]).fold(0.0, f64::max),
            no_change: mean(1),
            law: mean(2),
            skill: 1.0 - mean(0) / mean(1).max(1e-9),
        })
    }
}

/// Why there is no outcome.
#[derive(Debug)]
pub enum Why {
    /// This machine cannot run it.
    Skipped(String),
    /// It went wrong.
    Failed(String),
}

impl From<String> for Why {
    fn from(why: String) -> Why {
        Why::Failed(why)
    }
}

/// Runs a study. `guard` makes the command of the second program from the file that it is to watch;
/// `progress` hears a sentence now and then.
///
/// # Errors
/// Why this machine cannot, or what went wrong. Nothing is left running either way.
pub fn run(
    asked: &Asked,
    guard: impl Fn(&Path) -> std::io::Result<Command>,
    stop: &AtomicBool,
    mut progress: impl FnMut(&str),
) -> Result<Outcome, Why> {
    let begun = cavy_groups::now();
    let mounts = Mounts::find().map_err(Why::Skipped)?;
    Meter::open(&mounts.unified).map_err(|error| {
        Why::Skipped(format!("CPU time of control groups cannot be counted: {error}"))
    })?;
    let failed = |error: std::io::Error| Why::Failed(format!("{}: {error}", asked.out.display()));
    fs::create_dir_all(&asked.out).map_err(failed)?;
    let earlier = if asked.resume { Outcome::left_in(&asked.out)? } else { None };
    let mut points = chosen(asked)?;
    let known = |point: &Point| earlier.as_ref().is_some_and(|all| all.has(point, asked.rounds));
    points.retain(|point| !known(point));
    let ranking = earlier.as_ref().and_then(|all| all.ranking.as_ref());
    let ranked = asked.points_only || ranking.is_some_and(|one| !one.interrupted);
    let path = asked.out.join("predictions.jsonl");
    let mut ledger = match earlier {
        Some(_) => Ledger::go_on(&path)?,
        None => Ledger::begin(&path).map_err(failed)?,
    };
    let earlier = match earlier {
        Some(outcome) if points.is_empty() && ranked => return Ok(outcome),
        other => other,
    };
    let folder = tempfile::Builder::new()
        .prefix("cavy-foreign-")
        .tempdir()
        .map_err(|error| Why::Failed(format!("cannot make a temporary folder: {error}")))?;
    open_to_all(folder.path())?;
    progress("fetching nginx, PHP-FPM, MariaDB and WordPress");
    let kept = asked.packages.clone().unwrap_or_else(|| folder.path().join("packages"));
    let tree = Tree::fetch(&PACKAGES, &kept).map_err(Why::Skipped)?;
    progress("starting them twice");
    let plain = Settings::default();
    let mut measured = Wordpress::start(&tree, &folder.path().join("measured"), plain)?;
    let mut second = Wordpress::start(&tree, &folder.path().join("alone"), plain)?;
    let mut alone = Vec::new();
    if !points.is_empty() {
        second.get_all(PAGE, WARM_UP_FIRST * asked.clients, asked.clients)?;
    }
    for point in &points {
        progress(&format!("{}: {} alone", point.name, point.target.name()));
        alone.push(measure_alone(&mut second, point, asked, &mounts.unified)?);
        if stop.load(Ordering::Relaxed) {
            return Err(Why::Failed("interrupted before anything was predicted".to_string()));
        }
    }
    drop(second);

    let services: Vec<(String, Selector)> = Tier::ALL
        .iter()
        .filter_map(|tier| Some((tier.name().to_string(), Selector::Pid(measured.master(*tier)?))))
        .collect();
    let stage = Stage::set(&services, &mounts, Mechanism::Cgroup)
        .map_err(|error| Why::Failed(error.to_string()))?;
    let mut guard = guard(stage.file())
        .and_then(|mut command| Guard::start(&mut command))
        .map_err(|error| format!("cannot start the guard: {error}"))?;
    let address = measured.address();
    let gzip = ["Accept-Encoding: gzip".to_string()];
    let protocol = Headed::new(&address.to_string(), &gzip, &[PAGE.to_string()])?;
    let load = Load {
        address,
        clients: asked.clients,
        types: 1,
        rate_per_s: None,
        think: None,
        protocol: Box::new(protocol),
    };
    let clients = Clients::start(load)?;
    let mut bench = Bench::new(&stage, clients)?;
    bench.watch_speed().map_err(|error| format!("cannot look at the machine: {error}"))?;
    let options = |faster: f64, pace: Pace| Options {
        faster,
        rule: Rule::Delivered,
        rounds: asked.rounds,
        until_percent: None,
        control: true,
        pace,
        // Between two questions to the database PHP works for about a millisecond: with longer
        // pauses it would stand in them as well.
        pause_min: Some(Span::from_us(500)),
    };
    let paced = |per_s: Option<f64>| match per_s {
        Some(per_s) => {
            asked.pace.at_least(per_s, WARM_UP * asked.clients, asked.answers, WINDOW_MAX)
        }
        None => asked.pace,
    };
    let mut outcome = earlier.unwrap_or_default();
    bench.warm_up(asked.pace.settle, WARM_UP_FIRST * asked.clients, stop);
    if outcome.unchanged.is_none() && asked.unchanged > 0 {
        progress("windows of the unchanged application");
        let mut kinds = Vec::new();
        for settings in bases(&points) {
            measured.apply(settings)?;
            let pace = paced(bench.warm_up(asked.pace.settle, WARM_UP * asked.clients, stop));
            let mut seen = Vec::new();
            while seen.len() < asked.unchanged as usize && !stop.load(Ordering::Relaxed) {
                seen.push(bench.observe(pace.window).map_err(|error| error.to_string())?);
            }
            kinds.push(Kind { settings, seen });
        }
        // Fewer windows than asked for would be kept for the next piece.
        let whole = !stop.load(Ordering::Relaxed);
        outcome.unchanged = whole.then(|| Unchanged::of(kinds));
        outcome.keep(&asked.out)?;
    }
    let spread = outcome.unchanged.as_ref().and_then(|unchanged| unchanged.spread);
    let evening = spread.map(|spread| spread.evening);
    if !ranked {
        progress("ranking the tiers");
        let pace = paced(bench.warm_up(asked.pace.settle, WARM_UP * asked.clients, stop));
        let rank = || bench.rank(&[0, 1, 2], &options(0.25, pace), &mut guard, stop, |_, _, _| {});
        let ranking = first(rank).map_err(|error| error.to_string())?;
        outcome.interrupted = ranking.interrupted;
        outcome.ranking = Some(ranking);
    }
    outcome.programs = versions(&tree);
    let over = |outcome: &mut Outcome| {
        outcome.cut_short |=
            asked.at_most.is_some_and(|most| cavy_groups::now().since(begun) >= most);
        outcome.interrupted || outcome.cut_short
    };
    for (point, alone_us) in points.into_iter().zip(alone) {
        if over(&mut outcome) {
            break;
        }
        let faster = 1.0 - alone_us[1] / alone_us[0];
        if !(0.005..0.97).contains(&faster) {
            let why = format!(
                "{} takes {:.0} us without and {:.0} us with the change, which is no optimisation",
                point.target.name(),
                alone_us[0],
                alone_us[1]
            );
            progress(&format!("{}: not measured: {why}", point.name));
            outcome.not_measured.retain(|one| one.point != point.name);
            outcome.not_measured.push(NotMeasured { point: point.name, alone_us, why });
            continue;
        }
        let service = Tier::ALL.iter().position(|tier| *tier == point.target).unwrap_or(0);
        measured.apply(point.before)?;
        let per_s = bench.warm_up(asked.pace.settle, WARM_UP * asked.clients, stop);
        let pace = paced(per_s);
        progress(&format!(
            "{}: {:.1} answers a second, windows of {:.1} s",
            point.name,
            per_s.unwrap_or(0.0),
            pace.window.as_us() / 1e6
        ));
        let mut series = bench.begin(service, &options(faster, pace));
        let mut truth = Truth::new(bench.failed().0);
        let mut tried = 0;
        // Rounds in bad weather are taken again, half as many at most.
        while series.rounds() < asked.rounds as usize && tried < asked.rounds + asked.rounds / 2 {
            if over(&mut outcome) {
                break;
            }
            tried += 1;
            progress(&format!("{}: round {tried}, predicting", point.name));
            let went_on = first(|| bench.go_on(&mut series, &mut guard, stop))
                .map_err(|error| error.to_string())?;
            if !went_on {
                break;
            }
            truth.digest = ledger
                .predicted(&json!({
                    "point": point, "round": tried, "alone_us": alone_us,
                    "gain_percent": series.last_gain_ln().map(percent),
                    "evening": evening, "gain_evened_percent": evening
                        .and_then(|evening| series.last_evened_gain_ln(&evening)).map(percent),
                }))
                .map_err(failed)?;
            progress(&format!("{}: written down as {}; its truth", point.name, truth.digest));
            let seen = windows(&mut measured, &mut bench, &point, (asked.clients, &paced), stop)?;
            ledger.learned(&truth.digest, seen.gain_ln().map(percent)).map_err(failed)?;
            if stop.load(Ordering::Relaxed) {
                series.forget_last();
                break;
            }
            let left = asked.rounds + asked.rounds / 2 - tried;
            let needed = asked.rounds.saturating_sub(series.rounds() as u32);
            if !(series.last_weather().quiet() && seen.weather().quiet()) && left > needed {
                series.forget_last();
                truth.left_out += 1;
                continue;
            }
            truth.rounds.push((series.last_baseline_per_s(), seen));
        }
        outcome.interrupted |= stop.load(Ordering::Relaxed) || series.interrupted();
        truth.failed = bench.failed().0 - truth.failed;
        let prediction = bench.prediction(&series);
        let evened = evening.and_then(|evening| {
            Some([series.evened_gain_percent(&evening)?, truth.evened(&evening)?])
        });
        let judged = judge(point, service, alone_us, prediction, truth);
        outcome.add(Judged {
            error_evened_percent: evened.map(|[one, true_one]| over_truth(one.value, true_one)),
            evened,
            ..judged
        });
        outcome.keep(&asked.out)?;
    }
    outcome.keep(&asked.out)?;
    drop(bench);
    drop(stage);
    drop(guard);
    Ok(outcome)
}

fn chosen(asked: &Asked) -> Result<Vec<Point>, Why> {
    if asked.points.is_empty() {
        return Ok(Point::all(asked.quick));
    }
    let all = Point::all(false);
    let find = |name: &String| {
        all.iter().find(|point| point.name == *name).cloned().ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|point| point.name.as_str()).collect();
            Why::Failed(format!("there is no point `{name}`; there are {}", names.join(", ")))
        })
    };
    asked.points.iter().map(find).collect()
}

/// Servers run as another user, who must get to their files.
fn open_to_all(folder: &Path) -> Result<(), Why> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .map_err(|error| Why::Failed(format!("{}: {error}", folder.display())))
}

fn versions(tree: &Tree) -> Vec<String> {
    let say = |program: &str, option: &str| {
        let output = tree.command(program).arg(option).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().next().map(|line| line.split('/').next_back().unwrap_or(line).to_string())
    };
    [("usr/sbin/nginx", "-v"), ("usr/sbin/php-fpm8.2", "-v"), ("usr/sbin/mariadbd", "--version")]
        .iter()
        .filter_map(|(program, option)| say(program, option))
        .collect()
}

/// Runs `measure` on a thread that goes before all ordinary ones, so that what this one starts
/// later stays ordinary.
fn first<T: Send>(measure: impl FnOnce() -> T + Send) -> T {
    let with_priority = || {
        cavy_groups::go_first();
        measure()
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(with_priority);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// CPU microseconds of the point's tier for a request, without and with the change, in blocks of
/// the order without, with, with, without. As many requests are under way as in the study: one
/// after the other, a page finds other caches, and a burn of arithmetic does not mind.
///
/// The machine changes its speed for seconds at a time. So where the next request already meets a
/// change, blocks are short and many: four windows of 60 requests called a burn of 16 % one of 32.
fn measure_alone(
    second: &mut Wordpress,
    point: &Point,
    asked: &Asked,
    unified: &Path,
) -> Result<[f64; 2], String> {
    let warm_up = WARM_UP * asked.clients;
    let at_once = point.before.next_request_meets(&point.after);
    let (blocks, requests) = if at_once {
        (asked.alone.div_ceil(2 * warm_up).max(1), warm_up)
    } else {
        (1, asked.alone.div_ceil(6).max(1))
    };
    second.apply(point.before)?;
    second.get_all(PAGE, warm_up, asked.clients)?;
    let mut sums = [0.0; 2];
    let mut meter = Alone::of(second, point.target, unified)?;
    for with in [0, 1, 1, 0].repeat(blocks as usize) {
        second.apply(if with == 1 { point.after } else { point.before })?;
        if !at_once {
            second.get_all(PAGE, warm_up, asked.clients)?;
        }
        sums[with] += meter.us_per_request(second, PAGE, requests, asked.clients)?;
    }
    Ok(sums.map(|sum| sum / f64::from(2 * blocks)))
}

/// Throughput by a gain that was predicted over that by the true one, less one, percent.
fn over_truth(predicted_percent: f64, truth: Estimate) -> f64 {
    ((100.0 + predicted_percent) / (100.0 + truth.value) - 1.0) * 100.0
}

/// Percent of a logarithm of a ratio.
fn percent(ln: f64) -> f64 {
    (ln.exp() - 1.0) * 100.0
}

#[cfg(test)]
mod tests;
