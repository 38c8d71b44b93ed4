//! A user's machines and round trips, from CSV files; and what is wrong with them, in words.

use super::data;
use super::plan::DataPlan;
use super::world::{Machine, Matrix, Recorded, Truth, World};
use crate::csv::{self, Table};
use cavy_coords::{Point, map::FLOOR_MS_PER_KM};
use cavy_lab::statistics::quantile;
use cavy_places::{Cities, Found, Rung};
use cavy_study::plan::{Files, PlanError};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// Machines of a matrix, at most: its cells take eight bytes each.
const MACHINES_MAX: usize = 8_000;
/// Round trips of a file of pairs, at most.
const PAIRS_MAX: usize = 50_000_000;

/// Rows after which a listener hears again.
pub const HEARD_EVERY: usize = 1 << 14;

/// Hears how far long work is: what is done, how much of it, and how much there is.
pub type Listener<'a> = &'a mut dyn FnMut(&'static str, u64, u64);

/// The machines and round trips of a plan; `None` where each replication makes them up.
pub fn world(
    plan: &DataPlan,
    files: &Files,
    hear: Listener<'_>,
) -> Result<Option<Arc<World>>, PlanError> {
    let carried = |cell: &'static OnceLock<Arc<World>>, name: &str| {
        let read = || Arc::new(data::named(name).unwrap_or_else(|| unreachable!("carried")));
        Ok(Some(cell.get_or_init(read).clone()))
    };
    static RIPE: OnceLock<Arc<World>> = OnceLock::new();
    static AWS: OnceLock<Arc<World>> = OnceLock::new();
    static PLANETLAB: OnceLock<Arc<World>> = OnceLock::new();
    static SEATTLE: OnceLock<Arc<World>> = OnceLock::new();
    match plan {
        DataPlan::Ripe {} => carried(&RIPE, "ripe-2018"),
        DataPlan::Aws {} => carried(&AWS, "aws-2025"),
        DataPlan::PlanetLab {} => carried(&PLANETLAB, "planetlab-490"),
        DataPlan::Seattle {} => carried(&SEATTLE, "seattle-99"),
        DataPlan::Players(own) => super::players::check(own).map(|()| None),
        DataPlan::Matrix { file, nodes, mmdb } => {
            let (machines, note) = machines(files, nodes, mmdb.as_deref())?;
            let truth = Truth::Matrix(matrix(files, file, machines.len(), hear)?);
            let world = World { machines, truth, credits: &[], note };
            plausible(&world, &files.shown(file)).map(|()| Some(Arc::new(world)))
        }
        DataPlan::Pairs { file, nodes, mmdb } => {
            let (machines, note) = machines(files, nodes, mmdb.as_deref())?;
            let recorded = recorded(files, file, &machines, hear)?;
            let truth = Truth::Recorded(medians(&recorded, machines.len()), recorded);
            let world = World { machines, truth, credits: &[], note };
            plausible(&world, &files.shown(file)).map(|()| Some(Arc::new(world)))
        }
    }
}

/// A cell that may be empty or missing.
fn optional(
    table: &Table,
    row: &::csv::StringRecord,
    column: Option<usize>,
) -> Result<Option<f64>, PlanError> {
    match column.filter(|column| !row.get(*column).unwrap_or("").is_empty()) {
        Some(column) => table.number(row, column).map(Some),
        None => Ok(None),
    }
}

/// Places of addresses, as a database has them.
struct Addresses {
    cities: Cities,
    column: usize,
    /// Addresses that were looked up, and of them those of which the country alone is known, or
    /// nothing.
    asked: usize,
    country: usize,
    nowhere: usize,
}

impl Addresses {
    fn open(files: &Files, mmdb: &str, table: &Table) -> Result<Addresses, PlanError> {
        let read = files.read(mmdb);
        let bytes = read.map_err(|error| files.unreadable(mmdb, "database of places", &error))?;
        let cities = Cities::read(bytes.into_owned()).map_err(|why| {
            PlanError::text(format!("it is no database of places: {why}"))
                .in_file(files.shown(mmdb))
                .hint("`mmdb` names one of cities in MaxMind's format, such as DB-IP City Lite")
        })?;
        let column = table.column("ip")?;
        Ok(Addresses { cities, column, asked: 0, country: 0, nowhere: 0 })
    }

    /// Where the address in a row is; `None` where there is no address, or nobody knows.
    fn find(&mut self, cell: &str) -> Result<Option<Point>, String> {
        if cell.is_empty() {
            return Ok(None);
        }
        let ip: IpAddr = cell.parse().map_err(|_| format!("`{cell}` is no IP address"))?;
        let Found { known, rung, .. } = self.cities.find(ip);
        self.asked += 1;
        self.country += usize::from(rung == Rung::Country);
        self.nowhere += usize::from(rung == Rung::Nowhere);
        Ok(known.address.or(known.country))
    }

    /// What there is to say, when all were looked up.
    fn said(&self, shown: &str) -> Result<String, PlanError> {
        let Addresses { asked, country, nowhere, .. } = self;
        if *asked > 0 && nowhere == asked {
            let message = format!("it knows none of the {asked} addresses");
            return Err(PlanError::text(message)
                .in_file(shown)
                .hint("is it one of cities? And private addresses have no place"));
        }
        let mut parts = Vec::new();
        if *country > 0 {
            parts.push(format!(
                "for {country} of {asked} addresses only the country is known; these nodes begin \
                 in its middle"
            ));
        }
        if *nowhere > 0 {
            parts.push(format!("for {nowhere} of {asked} addresses no place is known"));
        }
        Ok(parts.join("; "))
    }
}

/// The machines of a file, and what is to be said of their places.
fn machines(
    files: &Files,
    file: &str,
    mmdb: Option<&str>,
) -> Result<(Vec<Machine>, String), PlanError> {
    let mut table = csv::open(files, file)?;
    let mut addresses = mmdb.map(|mmdb| Addresses::open(files, mmdb, &table)).transpose()?;
    let name = table.column("name")?;
    let place = |latitude: &str, longitude: &str| -> Result<_, PlanError> {
        let (lat, lon) = (table.column(latitude).ok(), table.column(longitude).ok());
        if lat.is_some() != lon.is_some() {
            let message = format!(
                "one of the columns `{latitude}` and `{longitude}` is missing; positions need both"
            );
            return Err(PlanError::text(message)
                .in_file(&table.name)
                .hint("add the other column; leave cells empty where a position is not known"));
        }
        Ok(lat.zip(lon))
    };
    let (said, true_place) = (place("lat", "lon")?, place("true_lat", "true_lon")?);
    let asn = table.column("asn").ok();
    let mut row = ::csv::StringRecord::new();
    let mut machines: Vec<Machine> = Vec::new();
    let mut seen = BTreeMap::new();
    while table.next(&mut row)? {
        let wrong = |column: usize, message: String| {
            let at = table.place(&row, column);
            PlanError::text(format!("{at}: {message}")).in_file(&table.name)
        };
        let of = |columns: Option<(usize, usize)>| -> Result<Option<Point>, PlanError> {
            let Some((lat, lon)) = columns else { return Ok(None) };
            let latitude = optional(&table, &row, Some(lat))?;
            let longitude = optional(&table, &row, Some(lon))?;
            let Some((latitude, longitude)) = latitude.zip(longitude) else { return Ok(None) };
            if let Some(point) = Point::from_degrees(latitude, longitude) {
                return Ok(Some(point));
            }
            let hint = match Point::from_degrees(longitude, latitude) {
                Some(_) => "they look swapped: latitude comes from -90 to 90",
                None => "latitude is -90 to 90 degrees, longitude -180 to 180",
            };
            let message = format!("{latitude}, {longitude} is no latitude and longitude");
            Err(wrong(lat, message).hint(hint))
        };
        let called = row.get(name).unwrap_or("").to_string();
        if called.is_empty() {
            let message = "a node has no name".to_string();
            return Err(wrong(name, message).hint("names tell nodes apart"));
        }
        if seen.insert(called.clone(), ()).is_some() {
            let message = format!("a second node is called `{called}`");
            return Err(wrong(name, message).hint("names tell nodes apart"));
        }
        let system = match optional(&table, &row, asn).map_err(|fault| {
            match asn.and_then(|column| row.get(column)).is_some_and(|cell| cell.starts_with("AS"))
            {
                true => fault.hint("write AS64496 as 64496"),
                false => fault,
            }
        })? {
            Some(number) if number.fract() == 0.0 && (0.0..=4_294_967_295.0).contains(&number) => {
                number as u32
            }
            Some(number) => {
                let message = format!("{number} is no number of a system");
                return Err(wrong(asn.unwrap_or(0), message).hint("leave it empty if unknown"));
            }
            None => 0,
        };
        let said = match (of(said)?, &mut addresses) {
            (None, Some(addresses)) => {
                let cell = row.get(addresses.column).unwrap_or("");
                let found = addresses.find(cell);
                found.map_err(|message| {
                    wrong(addresses.column, message).hint("leave it empty if unknown")
                })?
            }
            (said, _) => said,
        };
        machines.push(Machine { name: called, place: of(true_place)?.or(said), said, system });
    }
    if !(2..=MACHINES_MAX).contains(&machines.len()) {
        let message = format!("{} nodes; there must be 2 to {MACHINES_MAX}", machines.len());
        let hint = match machines.len() {
            0 | 1 => "a line for each node, below the line that names the columns",
            _ => "of more, take a sample: predictors learn from pairs, not from all of them",
        };
        return Err(PlanError::text(message).in_file(files.shown(file)).hint(hint));
    }
    let note = match (addresses, mmdb) {
        (Some(addresses), Some(mmdb)) => addresses.said(&files.shown(mmdb))?,
        _ => String::new(),
    };
    Ok((machines, note))
}

/// A round trip in a cell, refused where it is none.
fn rtt(table: &str, place: impl Fn() -> String, ms: f64) -> Result<f64, PlanError> {
    if ms > 0.0 && ms <= 10_000.0 {
        return Ok(ms);
    }
    let hint = match ms {
        0.0 => "leave out what was not measured",
        ms if ms > 10_000.0 => "are these microseconds? Longer than ten seconds is no distance",
        _ => "a round trip is a number of milliseconds above 0",
    };
    let message = format!("{}: {ms} is no round trip in milliseconds", place());
    Err(PlanError::text(message).in_file(table).hint(hint))
}

fn matrix(
    files: &Files,
    file: &str,
    count: usize,
    hear: Listener<'_>,
) -> Result<Matrix, PlanError> {
    let unreadable = |error: std::io::Error| files.unreadable(file, "round trips", &error);
    let mut opened = BufReader::new(files.open(file).map_err(unreadable)?);
    let delimiter = csv::delimiter(opened.fill_buf().map_err(unreadable)?);
    let shown = files.shown(file);
    let mut rows = ::csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .flexible(true)
        .trim(::csv::Trim::All)
        .from_reader(opened);
    let mut directed = vec![None; count * count];
    let mut read = 0;
    for record in rows.records() {
        let record = record.map_err(|error| {
            PlanError::text(format!("line {}: {error}", read + 1)).in_file(&shown)
        })?;
        read += 1;
        if read > count || record.len() != count {
            let message = format!(
                "line {read} has {} columns; there are {count} nodes, so there must be {count} \
                 rows of {count} columns",
                record.len()
            );
            return Err(PlanError::text(message)
                .in_file(&shown)
                .hint("rows and columns are in the order of the nodes, without a line of heads"));
        }
        for (column, cell) in record.iter().enumerate() {
            if cell.is_empty() || column + 1 == read {
                continue;
            }
            let place = || format!("line {read}, column {}", column + 1);
            let ms: f64 = cell.parse().map_err(|_| {
                PlanError::text(format!("{}: `{cell}` is no number", place()))
                    .in_file(&shown)
                    .hint("cells are milliseconds, or empty; there is no line of heads")
            })?;
            directed[(read - 1) * count + column] = Some(rtt(&shown, place, ms)?);
        }
        hear("reading round trips", read as u64, count as u64);
    }
    if read != count {
        let message = format!("{read} rows; there are {count} nodes");
        return Err(PlanError::text(message)
            .in_file(&shown)
            .hint("one row for each node, in their order"));
    }
    if directed.iter().all(Option::is_none) {
        return Err(PlanError::text("no pair was measured")
            .in_file(&shown)
            .hint("a cell is the round trip from the node of its row to that of its column"));
    }
    let mut matrix = Matrix::empty(count as u32);
    for a in 0..count {
        for b in a + 1..count {
            let ms = match (directed[a * count + b], directed[b * count + a]) {
                (Some(there), Some(back)) => Some((there + back) / 2.0),
                (there, back) => there.or(back),
            };
            if let Some(ms) = ms {
                matrix.set(a as u32, b as u32, ms);
            }
        }
    }
    Ok(matrix)
}

fn too_many(file: &str, message: &str) -> PlanError {
    PlanError::text(message)
        .in_file(file)
        .hint("every twentieth teaches nearly as much: `awk 'NR == 1 || NR % 20 == 0'`")
}

/// Refuses a file whose size says that it has too many lines, before hours are spent on reading it.
fn few_enough(files: &Files, file: &str) -> Result<(), PlanError> {
    let unreadable = |error: std::io::Error| files.unreadable(file, "file", &error);
    let Some(bytes) = files.size(file) else { return Ok(()) };
    let mut begin = Vec::new();
    files
        .open(file)
        .map_err(unreadable)?
        .take(1 << 16)
        .read_to_end(&mut begin)
        .map_err(unreadable)?;
    let lines = begin.iter().filter(|byte| **byte == b'\n').count().max(1);
    let about = bytes as f64 / (begin.len() as f64 / lines as f64).max(1.0);
    // Lines may become longer further down, but not twice as long.
    if about > 2.0 * PAIRS_MAX as f64 {
        let gigabytes = bytes as f64 / 1e9;
        let message = format!(
            "{gigabytes:.0} GB, about {:.0} million round trips; at most {} million are read",
            about / 1e6,
            PAIRS_MAX / 1_000_000
        );
        return Err(too_many(&files.shown(file), &message));
    }
    Ok(())
}

fn recorded(
    files: &Files,
    file: &str,
    machines: &[Machine],
    hear: Listener<'_>,
) -> Result<Vec<Recorded>, PlanError> {
    few_enough(files, file)?;
    let bytes = files.size(file).unwrap_or(0);
    let numbers: BTreeMap<&str, u32> =
        machines.iter().zip(0..).map(|(machine, number)| (machine.name.as_str(), number)).collect();
    let mut table = csv::open(files, file)?;
    let (from, to) = (table.column("from")?, table.column("to")?);
    let rtt_ms = table.column("rtt_ms")?;
    let time_s = table.column("time_s").ok();
    let mut row = ::csv::StringRecord::new();
    let mut all: Vec<Recorded> = Vec::new();
    while table.next(&mut row)? {
        let who = |column: usize| {
            let name = row.get(column).unwrap_or("");
            numbers.get(name).copied().ok_or_else(|| {
                let message = format!("{}: no node is called `{name}`", table.place(&row, column));
                PlanError::text(message)
                    .in_file(&table.name)
                    .hint("the file of nodes has all names that pairs use")
            })
        };
        let (one, other) = (who(from)?, who(to)?);
        if one == other {
            let place = table.place(&row, to);
            let name = &machines[one as usize].name;
            return Err(PlanError::text(format!("{place}: `{name}` measured itself"))
                .in_file(&table.name)
                .hint("leave the line out: a node has no round trip to itself"));
        }
        let ms = table.number(&row, rtt_ms)?;
        let ms = rtt(&table.name, || table.place(&row, rtt_ms), ms)?;
        let at = match time_s {
            Some(column) => table.number(&row, column)?,
            // A second after the one before.
            None => all.len() as f64,
        };
        let earlier = all.last().is_some_and(|last| at < last.time_s);
        if !at.is_finite() || earlier {
            let place = table.place(&row, time_s.unwrap_or(0));
            return Err(PlanError::text(format!("{place}: {at} is not in order of time"))
                .in_file(&table.name)
                .hint(
                    "sort the file by `time_s`: what is learnt later must not be known earlier",
                ));
        }
        if all.len() == PAIRS_MAX {
            return Err(too_many(&table.name, &format!("more than {PAIRS_MAX} round trips")));
        }
        all.push(Recorded { from: one, to: other, rtt_ms: ms, time_s: at });
        if all.len().is_multiple_of(HEARD_EVERY) {
            hear("reading round trips", table.bytes(), bytes);
        }
    }
    if all.is_empty() {
        return Err(PlanError::text("no pair was measured")
            .in_file(&table.name)
            .hint("a line for each round trip, below the line that names the columns"));
    }
    Ok(all)
}

/// The median of what was measured of each pair.
fn medians(recorded: &[Recorded], count: usize) -> Matrix {
    let mut by_pair: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for one in recorded {
        let pair = (one.from.min(one.to), one.from.max(one.to));
        by_pair.entry(pair).or_default().push(one.rtt_ms);
    }
    let mut matrix = Matrix::empty(count as u32);
    for ((a, b), mut all) in by_pair {
        all.sort_unstable_by(f64::total_cmp);
        if let Some(median) = quantile::of_sorted(&all, 0.5) {
            matrix.set(a, b, median);
        }
    }
    matrix
}

/// Pairs whose round trip is shorter than light in fibre allows, and all that have two places.
fn below_light(world: &World, place: impl Fn(Point) -> Option<Point>) -> (u64, u64) {
    let (mut below, mut all) = (0u64, 0u64);
    let of = |machine: &Machine| machine.said.and_then(&place);
    let places: Vec<Option<Point>> = world.machines.iter().map(of).collect();
    for a in 0..world.count() {
        for b in a + 1..world.count() {
            let (Some(here), Some(there)) = (places[a as usize], places[b as usize]) else {
                continue;
            };
            let Some(rtt_ms) = world.rtt_ms(a, b) else { continue };
            all += 1;
            below += u64::from(rtt_ms < FLOOR_MS_PER_KM * here.distance_km(there));
        }
    }
    (below, all)
}

/// Light sets a floor under round trips: where most pairs lie below it, or many that do not with
/// latitude and longitude exchanged, units or positions are wrong. Of fewer than ten all must lie
/// below it: a database is wrong now and then.
fn plausible(world: &World, file: &str) -> Result<(), PlanError> {
    let (below, all) = below_light(world, Some);
    let is_few = all < 10;
    if below * 20 <= all || is_few && (below < 2 || below < all) {
        return Ok(());
    }
    let exchanged = |place: Point| {
        let (latitude, longitude) = place.degrees();
        Point::from_degrees(longitude, latitude)
    };
    let (still, all_exchanged) = below_light(world, exchanged);
    if all_exchanged == all && still * 4 < below {
        let message = format!(
            "{below} of {all} round trips are shorter than light in fibre allows; with latitude \
             and longitude exchanged {still} are"
        );
        return Err(PlanError::text(message)
            .in_file(file)
            .hint("exchange the columns `lat` and `lon` of the nodes"));
    }
    if below * 2 <= all {
        return Ok(());
    }
    let message = format!("{below} of {all} round trips are shorter than light in fibre allows");
    Err(PlanError::text(message)
        .in_file(file)
        .hint("are these seconds? Round trips are in milliseconds")
        .hint("or are latitude and longitude swapped?"))
}
