//! `cavy coords`: coordinates to keep and to use.

use crate::args::{Coords, CoordsFit, CoordsPlace, CoordsPredict, CoordsRank, PlaceGoal};
use crate::faults::Fault;
use crate::progress::Gauge;
use crate::terminal;
use crate::{Clock, Outcome};
use cavy_kinds::coords::DataPlan;
use cavy_kinds::coords::load;
use cavy_kinds::coords::pictures;
use cavy_kinds::coords::space::{self, Goal, Node, Quality, Space, UNSEEN_MIN};
use cavy_report::model::{Document, Figure, Map};
use cavy_report::{Theme, html};
use cavy_study::plan::{Files, files};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

/// Does what was asked.
pub fn coords(args: &Coords, clock: Clock) -> Result<Outcome, Fault> {
    match args {
        Coords::Fit(args) => fit(args, clock),
        Coords::Predict(args) => predict(args),
        Coords::Rank(args) => rank(args),
        Coords::Place(args) => place(args, clock),
    }
}

/// Whether a file can be opened, said by the option that names it.
fn readable(option: &str, file: &Path) -> Result<(), Fault> {
    let cannot = |why: &dyn std::fmt::Display| {
        Fault::new(format!("cannot read {option} `{}`: {why}", file.display()))
            .hint("`cavy coords fit --help` shows what it has")
    };
    match std::fs::File::open(file).and_then(|open| open.metadata()) {
        Ok(found) if found.is_dir() => Err(cannot(&"it is a folder")),
        Ok(_) => Ok(()),
        Err(error) => Err(cannot(&error)),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn fit(args: &CoordsFit, clock: Clock) -> Result<Outcome, Fault> {
    let (nodes, mmdb) = (shown(&args.nodes), args.mmdb.as_deref().map(shown));
    let data = match (&args.pairs, &args.matrix) {
        (Some(pairs), _) => DataPlan::Pairs { file: shown(pairs), nodes, mmdb },
        (None, Some(matrix)) => DataPlan::Matrix { file: shown(matrix), nodes, mmdb },
        (None, None) => {
            return Err(Fault::new("there is nothing to fit to")
                .hint("give measured pairs by `--pairs`, or a square of them by `--matrix`"));
        }
    };
    for (option, file) in [
        ("--nodes", Some(&args.nodes)),
        ("--pairs", args.pairs.as_ref()),
        ("--matrix", args.matrix.as_ref()),
        ("--mmdb", args.mmdb.as_ref()),
    ] {
        file.map_or(Ok(()), |file| readable(option, file))?;
    }
    let files = Files::Folder(Path::new("").to_path_buf());
    let mut gauge = Gauge::new(clock);
    let mut hear = |doing, done, all| gauge.tell(doing, done, all);
    let world =
        load::world(&data, &files, &mut hear).map_err(|error| match error.hints.is_empty() {
            true => error.hint("`cavy coords fit --help` shows what both files have"),
            false => error,
        });
    let Some(world) = world? else {
        return Err(Fault::new("these data are made up"));
    };
    let fitted = space::fit(&world, args.seed, &mut hear);
    drop(gauge);
    if fitted.space.nodes.is_empty() {
        let all = fitted.nowhere.len();
        return Err(Fault::new(format!("none of {all} nodes has a position to begin from"))
            .hint(format!("fill `lat` and `lon` in `{}` for some of them", args.nodes.display()))
            .hint("or give them an `ip`, and name a database of cities by `--mmdb`"));
    }
    let text = serde_json::to_string_pretty(&fitted.space).unwrap_or_default();
    std::fs::write(&args.out, text + "\n").map_err(|error| {
        Fault::new(format!("cannot write `{}`: {error}", args.out.display()))
            .hint("name another file by `--out`")
    })?;
    if let Some(file) = &args.map {
        draw(pictures::fitted(&world, &fitted.space), file, &fitted.space, args.seed, clock)?;
    }
    let known = fitted.space.nodes.len();
    if args.json {
        terminal::print_json(&json!({
            "space": args.out,
            "nodes": known,
            "ms_per_km": fitted.space.ms_per_km,
            "base_ms": fitted.space.base_ms,
            "before": fitted.before,
            "hidden": fitted.hidden,
            "nowhere": fitted.nowhere,
            "note": world.note,
        }))?;
        return Ok(Outcome::Success);
    }
    let words = |quality: &Quality| match (quality.samples, quality.p50_ms, quality.p90_ms) {
        (1, Some(only), _) => format!("{only:.1} ms (1 prediction)"),
        (2..10, Some(p50), _) => {
            format!("median {p50:.1} ms ({} predictions, too few for a p90)", quality.samples)
        }
        (_, Some(p50), Some(p90)) => {
            format!("median {p50:.1} ms, p90 {p90:.1} ms ({} predictions)", quality.samples)
        }
        _ => "no predictions".to_string(),
    };
    let mut out = String::new();
    let _ = writeln!(out, "{known} nodes have coordinates, in {}", args.out.display());
    if !world.note.is_empty() {
        let _ = writeln!(out, "  {}", world.note);
    }
    let (slope, base) = (fitted.space.ms_per_km, fitted.space.base_ms);
    let _ = writeln!(out, "  line: {slope:.4} ms per km, and {base:.1} ms");
    let _ = writeln!(out, "  error before each measurement: {}", words(&fitted.before));
    let _ = writeln!(out, "  error of a fifth of the pairs, unseen: {}", words(&fitted.hidden));
    if !fitted.nowhere.is_empty() {
        let few: Vec<&str> = fitted.nowhere.iter().take(8).map(String::as_str).collect();
        let _ = writeln!(
            out,
            "  {} neither a position nor three measurements: {}",
            match fitted.nowhere.len() {
                1 => "1 node has".to_string(),
                many => format!("{many} nodes have"),
            },
            few.join(", ")
        );
    }
    terminal::print(&out)?;
    Ok(Outcome::Success)
}

/// Writes a map of a space, as a page that says where it is from, or as a drawing.
fn draw(map: Map, file: &Path, space: &Space, seed: u64, clock: Clock) -> Result<(), Fault> {
    let text = if file.extension().is_some_and(|extension| extension == "html") {
        let (title, caption) = (map.title.clone(), map.caption.clone());
        let figure = Figure {
            id: map.id.clone(),
            title: title.clone(),
            shows: String::new(),
            claimed: String::new(),
            found: String::new(),
            command: String::new(),
            panels: Vec::new(),
            maps: vec![map],
            tables: Vec::new(),
        };
        html::render(&Document {
            title,
            summary: caption,
            command: terminal::command_line(),
            version: format!("cavy {}", env!("CARGO_PKG_VERSION")),
            seed,
            digest: space.digest(),
            elapsed_s: clock.elapsed_s(),
            facts: Vec::new(),
            claims: Vec::new(),
            figures: vec![figure],
            plan: None,
        })
    } else {
        cavy_report::map::svg(&map, Theme::Light)
    };
    std::fs::write(file, text).map_err(|error| {
        Fault::new(format!("cannot write `{}`: {error}", file.display()))
            .hint("name another file by `--map`")
    })
}

fn read(path: &Path) -> Result<Space, Fault> {
    let text = files::text(path).map_err(|error| {
        Fault::new(format!("cannot read `{}`: {error}", path.display()))
            .hint("`cavy coords fit` writes such a file")
    })?;
    Space::read(&text).map_err(|why| {
        Fault::new(format!("{}: {why}", path.display())).hint("`cavy coords fit` writes it anew")
    })
}

/// The node called `name`.
fn node<'a>(space: &'a Space, name: &str) -> Result<&'a Node, Fault> {
    let cure = "names are those of the file of nodes that was fitted, by commas without spaces";
    space.node(name).map_err(|why| Fault::new(why).hint(cure))
}

/// The nodes called `names`, which `option` gave, or all when there are none.
fn nodes<'a>(space: &'a Space, option: &str, names: &[String]) -> Result<Vec<&'a Node>, Fault> {
    if names.is_empty() {
        return Ok(space.nodes.iter().collect());
    }
    if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name))
    {
        let twice = format!("{option} names `{name}` twice");
        return Err(Fault::new(twice).hint("name each node once"));
    }
    names.iter().map(|name| node(space, name)).collect()
}

fn predict(args: &CoordsPredict) -> Result<Outcome, Fault> {
    let space = read(&args.space)?;
    let from = node(&space, &args.from)?;
    let others = nodes(&space, "--to", &args.to)?;
    // Who is named is answered for; nobody else asks how far it is to oneself.
    let others = others.into_iter().filter(|to| !args.to.is_empty() || to.name != from.name);
    let mut all: Vec<(&str, space::Trip)> =
        others.map(|other| (other.name.as_str(), space.rtt(from, other))).collect();
    all.sort_by(|a, b| a.1.rtt_ms.total_cmp(&b.1.rtt_ms).then(a.0.cmp(b.0)));
    if args.json {
        let each = all.iter().map(
            |(to, trip)| json!({ "to": to, "rtt_ms": trip.rtt_ms, "measured": trip.measured }),
        );
        terminal::print_json(&json!({ "from": from.name, "to": each.collect::<Vec<_>>() }))?;
        return Ok(Outcome::Success);
    }
    let mut out = String::new();
    for (to, trip) in all {
        let how = if trip.measured { "measured" } else { "predicted" };
        let _ = writeln!(out, "{:8.1} ms  {how:9}  {to}", trip.rtt_ms);
    }
    terminal::print(&out)?;
    Ok(Outcome::Success)
}

fn rank(args: &CoordsRank) -> Result<Outcome, Fault> {
    let space = read(&args.space)?;
    let party = nodes(&space, "--for", &args.r#for)?;
    let servers = nodes(&space, "--among", &args.among)?;
    if let Some(below) = args.below.filter(|_| space.unseen.len() < UNSEEN_MIN) {
        let hidden = space.unseen.len();
        let why =
            format!("--below {below}: the fit hid {hidden} pairs; a chance needs {UNSEEN_MIN}");
        return Err(Fault::new(why).hint(
            "`cavy coords fit` hides a fifth of what was measured: measure more pairs, or rank \
             without `--below`",
        ));
    }
    let ranked = space.rank(&party, &servers, args.below);
    if args.json {
        terminal::print_json(&json!({
            "for": args.r#for,
            "below_ms": args.below,
            "servers": ranked,
        }))?;
        return Ok(Outcome::Success);
    }
    let mut out = String::from("   worst       mean      server\n");
    if let Some(below) = args.below {
        out = format!(" chance to be below {below} ms\n         worst       mean      server\n");
    }
    for one in &ranked {
        if let Some(chance) = one.chance {
            let _ = write!(out, "{:3.0} %  ", 100.0 * chance);
        }
        let _ = writeln!(out, "{:8.1} ms {:8.1} ms  {}", one.worst_ms, one.mean_ms, one.server);
    }
    terminal::print(&out)?;
    Ok(Outcome::Success)
}

fn place(args: &CoordsPlace, clock: Clock) -> Result<Outcome, Fault> {
    let space = read(&args.space)?;
    let users = nodes(&space, "--for", &args.r#for)?;
    let sites = nodes(&space, "--among", &args.among)?;
    if args.sites == 0 || args.sites > sites.len() {
        let all = sites.len();
        return Err(Fault::new(format!("{} sites cannot be chosen from {all}", args.sites))
            .hint(format!("`--sites` is 1 to {all}")));
    }
    let goal = match args.goal {
        PlaceGoal::Mean => Goal::Mean,
        PlaceGoal::Worst => Goal::Worst,
        PlaceGoal::Majority => Goal::Majority,
    };
    let placed = space.place(&users, &sites, args.sites, goal);
    if let Some(file) = &args.map {
        draw(pictures::placed(&space, &users, &placed), file, &space, 0, clock)?;
    }
    if args.json {
        terminal::print_json(&json!(placed))?;
        return Ok(Outcome::Success);
    }
    let what = match goal {
        Goal::Mean => "mean round trip to the nearest site",
        Goal::Worst => "longest round trip to the nearest site",
        Goal::Majority => "mean time until a majority of sites has answered",
    };
    let how = if placed.exact { "nothing better exists" } else { "found by exchanging sites" };
    let mut out = format!("{}\n", placed.sites.join(", "));
    let _ = writeln!(out, "  {what}: {:.1} ms; {how}", placed.value_ms);
    let _ = writeln!(out, "  with a site at every place it would be {:.1} ms", placed.bound_ms);
    terminal::print(&out)?;
    Ok(Outcome::Success)
}
