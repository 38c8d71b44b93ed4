//! Players of a game, made up: where they live, what lies between them, when they play ([htrae
//! 4.4]; what that leaves open is decided in decision 19).
//!
//! A pair's round trip is a function of the seed and of the pair, drawn anew whenever it is asked
//! for, so that a million players need no square of a million rows.

use super::data;
use super::plan::PlayersPlan;
use super::world::{Machine, Truth, World};
use cavy_coords::{Point, map::FLOOR_MS_PER_KM};
use cavy_core::{Digest, Instant, Purpose, Stream};
use cavy_study::plan::PlanError;
use core::f64::consts::{PI, TAU};
use core::ops::Range;

const DAY_NS: u64 = 86_400_000_000_000;

/// What is drawn of a pair; two of them never share draws.
#[derive(Clone, Copy)]
enum Draw {
    Area = 1,
    Pair = 2,
    Border = 3,
    Detour = 4,
    DetourLength = 5,
    Saving = 6,
}

/// A player, as far as round trips go. All of it in one place: among millions, each list of its own
/// would be one more wait for memory.
#[derive(Clone, Copy, Debug)]
struct Player {
    place: Point,
    access_ms: f64,
    area: u32,
    /// Numbers of very large ones come first, from 1.
    system: u32,
    region: u8,
}

/// What lies between players.
#[derive(Clone, Debug)]
pub struct Players {
    plan: PlayersPlan,
    seed: u64,
    players: Vec<Player>,
    /// Where a database says that each is.
    said: Vec<Point>,
    /// First day, and number of days.
    there: Vec<(u16, u16)>,
    stretch: Stretch,
    /// What lies between two regions, milliseconds, by the one and the other.
    borders_ms: [[f64; REGIONS]; REGIONS],
}

/// A probe of a session: who, whom, when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Who.
    pub from: u32,
    /// Whom.
    pub to: u32,
    /// When.
    pub at: Instant,
}

const EUROPE: [&str; 32] = [
    "at", "be", "bg", "ch", "cz", "de", "dk", "ee", "es", "fi", "fo", "fr", "gb", "gr", "hu", "ie",
    "is", "it", "lt", "lu", "lv", "nl", "no", "pl", "pt", "ro", "rs", "ru", "se", "si", "sk", "ua",
];

/// 0 in North America, 1 in Europe, 2 elsewhere, by the country that a name begins with.
fn continent(name: &str) -> usize {
    match name.get(..2) {
        Some("us" | "ca") => 0,
        Some(country) if EUROPE.contains(&country) => 1,
        _ => 2,
    }
}

/// Regions that there are.
const REGIONS: usize = 8;

/// One of the regions.
fn region(place: Point) -> u8 {
    let (latitude, longitude) = place.degrees();
    match (latitude, longitude) {
        (12.0.., ..-30.0) => u8::from(longitude > -100.0),
        (_, ..-30.0) => 2,
        (35.0.., -30.0..=45.0) => 3 + u8::from(longitude > 10.0),
        (_, -30.0..=60.0) => 5,
        (..-10.0, _) => 7,
        _ => 6,
    }
}

fn area(place: Point, width_deg: f64) -> u32 {
    let (latitude, longitude) = place.degrees();
    let row = ((latitude + 90.0) / width_deg) as u32;
    let column = ((longitude + 180.0) / width_deg) as u32;
    row * 1_000 + column
}

/// The place at `distance_km` from `place` in a random direction.
fn away(place: Point, distance_km: f64, rng: &mut Stream) -> Point {
    let other = Point::random(rng);
    place.moved_away(other, distance_km / cavy_coords::sphere::EARTH_RADIUS_KM, rng)
}

/// Draws by weights that fall with rank.
struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(count: usize, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += libm::pow(rank as f64, -exponent);
            sum
        });
        Zipf { sums: sums.collect() }
    }

    fn draw(&self, rng: &mut Stream) -> usize {
        let at = rng.unit() * self.sums.last().copied().unwrap_or(0.0);
        self.sums.partition_point(|sum| *sum < at).min(self.sums.len().saturating_sub(1))
    }
}

/// Two numbers in `(0, 1]` of a pair, whichever end comes first.
fn units(seed: u64, draw: Draw, a: u32, b: u32) -> [f64; 2] {
    let mut digest = Digest::new();
    for word in [seed, draw as u64, u64::from(a.min(b)), u64::from(a.max(b))] {
        digest.fold(word);
    }
    let unit = |bits: u64| ((bits >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64);
    let first = digest.value();
    digest.fold(1);
    [unit(first), unit(digest.value())]
}

fn normal([a, b]: [f64; 2]) -> f64 {
    libm::sqrt(-2.0 * libm::log(a)) * libm::cos(TAU * b)
}

impl Players {
    /// Makes players up.
    pub fn world(plan: &PlayersPlan, seed: u64) -> World {
        let cities = Cities::new(plan);
        let mut rng = Stream::keyed(seed, 0, Purpose::Kinds);
        let sigma = libm::log(plan.access_p90_ms / plan.access_median_ms) / 1.281_551_565_544_6;
        let giants = Zipf::new(plan.giants as usize, plan.system_exponent);
        let small = Zipf::new(plan.systems_per_city as usize, plan.system_exponent);
        let border_ms = |here: usize, there: usize| {
            let [unit, _] = units(seed, Draw::Border, here as u32, there as u32);
            -plan.border_mean_ms * libm::log(unit)
        };
        let borders_ms = [0, 1, 2, 3, 4, 5, 6, 7];
        let borders_ms = borders_ms.map(|here| borders_ms.map(|there| border_ms(here, there)));
        let mut players = Players {
            plan: plan.clone(),
            seed,
            stretch: Stretch::new(&plan.stretch),
            borders_ms,
            players: Vec::with_capacity(plan.count as usize),
            said: Vec::with_capacity(plan.count as usize),
            there: Vec::with_capacity(plan.count as usize),
        };
        for _ in 0..plan.count {
            let city = cities.draw(plan, &mut rng);
            let distance_km = plan.city_radius_km * libm::sqrt(rng.unit());
            let place = away(cities.places[city], distance_km, &mut rng);
            let said = said(plan, place, &cities, &mut rng);
            let access = sigma * normal([rng.unit(), rng.unit()]);
            let giant = plan.giants > 0 && rng.unit() <= plan.giants_ratio;
            let system = if giant {
                1 + giants.draw(&mut rng) as u32
            } else {
                1 + plan.giants + city as u32 * plan.systems_per_city + small.draw(&mut rng) as u32
            };
            let passing = rng.unit() <= plan.passing_ratio;
            let days = if passing {
                1 + rng.below(plan.passing_days_max.into()) as u32
            } else {
                plan.days
            };
            let first = rng.below(u64::from(plan.days - days.min(plan.days)) + 1) as u32;
            players.players.push(Player {
                place,
                access_ms: plan.access_median_ms * libm::exp(access),
                area: area(place, plan.area_deg),
                system,
                region: region(place),
            });
            players.said.push(said);
            // `check` has bounded days.
            players.there.push((first as u16, days.min(plan.days) as u16));
        }
        let truth = Truth::Players(Box::new(players));
        World { machines: Vec::new(), truth, credits: &[], note: String::new() }
    }

    /// Players.
    pub fn count(&self) -> u32 {
        self.players.len() as u32
    }

    /// A player as a machine among others.
    pub fn machine(&self, number: u32) -> Machine {
        let Player { place, system, .. } = self.players[number as usize];
        let said = self.said[number as usize];
        let name = format!("player-{number}");
        Machine { name, place: Some(place), said: Some(said), system }
    }

    /// The round trip between two players, milliseconds, the same from either end.
    pub fn rtt_ms(&self, a: u32, b: u32) -> Option<f64> {
        let (one, other) = (self.players.get(a as usize)?, self.players.get(b as usize)?);
        if a == b {
            return None;
        }
        let plan = &self.plan;
        let km = one.place.distance_km(other.place);
        let of_areas = units(self.seed, Draw::Area, one.area, other.area);
        let of_pair = units(self.seed, Draw::Pair, a, b);
        let wide =
            plan.stretch_area_sigma * normal(of_areas) + plan.stretch_pair_sigma * normal(of_pair);
        let stretch = (self.stretch.median(km) * libm::exp(wide)).max(1.0);
        let mut rtt = FLOOR_MS_PER_KM * km * stretch;
        let (here, there) = (one.region, other.region);
        if here != there {
            rtt += self.borders_ms[usize::from(here)][usize::from(there)];
        }
        let system = one.system;
        let saved = if system > plan.giants && system == other.system {
            let [unit, _] = units(self.seed, Draw::Saving, system, system);
            let (least, most) = plan.same_system_saving;
            least + (most - least) * unit
        } else {
            0.0
        };
        rtt += (one.access_ms + other.access_ms) * (1.0 - saved);
        let [detour, _] = units(self.seed, Draw::Detour, a, b);
        if detour <= plan.detour_ratio {
            let [unit, _] = units(self.seed, Draw::DetourLength, a, b);
            rtt += plan.detour_ms.0 + (plan.detour_ms.1 - plan.detour_ms.0) * unit;
        }
        Some(rtt)
    }

    /// Reads both ends of several visits, whose round trips are asked for next: the processor waits
    /// for memory once, and not for one after the other.
    pub fn fetch(&self, visits: &[Visit]) {
        let read = |player: u32| u64::from(self.players[player as usize].region);
        let sum = visits.iter().fold(0, |sum, one| sum + read(one.from) + read(one.to));
        std::hint::black_box(sum);
    }

    /// What one probe of a round trip of `rtt_ms` takes.
    pub fn noisy_ms(&self, rtt_ms: f64, rng: &mut Stream) -> f64 {
        let shape = self.plan.noise_shape;
        let sum: f64 = (0..shape).map(|_| -libm::log(rng.unit())).sum();
        rtt_ms * (1.0 + self.plan.noise_mean_ratio * sum / f64::from(shape.max(1)))
    }

    /// All probes of sessions that come to `probes_each` for a player on average, by time, in
    /// `parts` of some days each. Sessions are drawn anew for each part, and only what lies in it
    /// is kept: some hours in each of many lists, each of which is put in order when it is its
    /// turn, and dropped afterwards. So tens of millions of probes need little memory.
    pub fn visits(&self, probes_each: u32, parts: u64, rng: Stream) -> impl Iterator<Item = Visit> {
        let days = u64::from(self.plan.days);
        let days_each = days.div_ceil(parts.clamp(1, days.max(1)));
        let parts = days.div_ceil(days_each.max(1)).max(1);
        let by_day = Days::new(&self.there, self.plan.days);
        let probes = self.players.len() as u64 * u64::from(probes_each);
        let lists = (probes / parts).div_ceil(LIST_PROBES).max(1);
        let list_ns = (days_each * DAY_NS).div_ceil(lists);
        let part = move |part: u64| {
            let from = Instant::from_ns(part * days_each * DAY_NS);
            // The last session may end after midnight of the last day.
            let to = match part + 1 == parts {
                true => Instant::NEVER,
                false => Instant::from_ns((part + 1) * days_each * DAY_NS),
            };
            let mut visits = vec![Vec::new(); lists as usize];
            self.sessions(&by_day, probes_each, &mut rng.clone(), from..to, |visit| {
                let list = (visit.at.since(from).as_ns() / list_ns).min(lists - 1);
                visits[list as usize].push(visit);
            });
            visits.into_iter().flat_map(|mut list| {
                list.sort_by_key(|visit| visit.at);
                list
            })
        };
        (0..parts).flat_map(part)
    }

    /// Draws all sessions, in no order of time, and says what is probed `within` some days. Of
    /// other sessions it only draws how many numbers they take: whom they meet is anywhere in
    /// memory, and waiting for that takes most of the time.
    fn sessions(
        &self,
        by_day: &Days<'_>,
        probes_each: u32,
        rng: &mut Stream,
        within: Range<Instant>,
        mut each: impl FnMut(Visit),
    ) {
        let plan = &self.plan;
        let count = self.players.len();
        let wanted = count * probes_each as usize;
        let mut made = 0;
        let between = |(least, most): (u32, u32), rng: &mut Stream| {
            (u64::from(least) + rng.below(u64::from(most - least) + 1)) as usize
        };
        // Where those who are probed stand among those who are there that day.
        let mut others: Vec<usize> = Vec::new();
        let day_of = |at: Instant| (at.as_ns() / DAY_NS).min(plan.days.into()) as u32;
        // A session that began before midnight goes on after it.
        let listed = by_day.list(day_of(within.start).saturating_sub(1)..day_of(within.end));
        while made < wanted {
            let from = rng.below(count as u64) as u32;
            let (first, days) = self.there[from as usize];
            let day = u32::from(first) + rng.below(days.into()) as u32;
            let here = by_day.count(day);
            let candidates = between(plan.candidates, rng).min(here - 1);
            let probed = between(plan.probed, rng).min(candidates).min(wanted - made);
            others.clear();
            while others.len() < probed {
                let at = rng.below(here as u64) as usize;
                if !by_day.is_at(day, at, from) && !others.contains(&at) {
                    others.push(at);
                }
            }
            let begin = u64::from(day) * DAY_NS + rng.below(DAY_NS);
            // One after the other, a second apart.
            let moment = |index: usize| Instant::from_ns(begin + index as u64 * 1_000_000_000);
            if moment(0) < within.end && moment(probed) >= within.start {
                let here = listed.on(day);
                let visit =
                    |(index, at): (usize, &usize)| Visit { from, to: here[*at], at: moment(index) };
                let visits = others.iter().enumerate().map(visit);
                visits.filter(|visit| within.contains(&visit.at)).for_each(&mut each);
            }
            made += others.len();
            if probed == 0 && (0..plan.days).all(|day| by_day.count(day) < 2) {
                break;
            }
        }
    }
}

/// How many are there on each day, and who on some of them.
struct Days<'p> {
    /// First day, and number of days, of each player.
    there: &'p [(u16, u16)],
    /// Of each day, how many come before each block of numbers, and before the end of the last one.
    before: Vec<u32>,
    blocks: usize,
}

/// Numbers of players in a block.
const BLOCK: usize = 1_024;
/// Probes in a list that is put in order at once, about.
const LIST_PROBES: u64 = 65_536;

fn days_of((first, days): (u16, u16)) -> Range<usize> {
    usize::from(first)..usize::from(first) + usize::from(days)
}

impl<'p> Days<'p> {
    fn new(there: &'p [(u16, u16)], days: u32) -> Days<'p> {
        let blocks = there.len().div_ceil(BLOCK);
        let mut before = vec![0; days as usize * (blocks + 1)];
        for (block, there) in there.chunks(BLOCK).enumerate() {
            for day in there.iter().copied().flat_map(days_of) {
                before[day * (blocks + 1) + block + 1] += 1;
            }
        }
        for of_day in before.chunks_mut(blocks + 1) {
            (1..=blocks).for_each(|block| of_day[block] += of_day[block - 1]);
        }
        Days { there, before, blocks }
    }

    /// Players who are there on `day`.
    fn count(&self, day: u32) -> usize {
        self.before[day as usize * (self.blocks + 1) + self.blocks] as usize
    }

    /// Is `player`, who is there, the one at `at` of those who are there on `day`, in the order of
    /// their numbers? Mostly `player` stands in another block.
    fn is_at(&self, day: u32, at: usize, player: u32) -> bool {
        let number = player as usize / BLOCK;
        let block = day as usize * (self.blocks + 1) + number;
        let (first, end) = (self.before[block] as usize, self.before[block + 1] as usize);
        (first..end).contains(&at) && {
            let earlier = &self.there[number * BLOCK..player as usize];
            let is_there = |there: &&(u16, u16)| days_of(**there).contains(&(day as usize));
            first + earlier.iter().filter(is_there).count() == at
        }
    }

    /// Who is there on each of `days`.
    fn list(&self, days: Range<u32>) -> Listed {
        let mut lists: Vec<Vec<u32>> =
            days.clone().map(|day| Vec::with_capacity(self.count(day))).collect();
        for (player, there) in self.there.iter().enumerate() {
            let Range { start, end } = days_of(*there);
            let some = start.max(days.start as usize)..end.min(days.end as usize);
            some.for_each(|day| lists[day - days.start as usize].push(player as u32));
        }
        Listed { first: days.start, lists }
    }
}

/// Who is there on some days, in the order of their numbers.
struct Listed {
    first: u32,
    lists: Vec<Vec<u32>>,
}

impl Listed {
    fn on(&self, day: u32) -> &[u32] {
        &self.lists[(day - self.first) as usize]
    }
}

/// The cities that players live in, by continent.
struct Cities {
    places: Vec<Point>,
    of: [Vec<usize>; 3],
    ranks: [Zipf; 3],
}

impl Cities {
    fn new(plan: &PlayersPlan) -> Cities {
        let world = data::named("ripe-2018").unwrap_or_else(|| unreachable!("carried"));
        let mut of = [Vec::new(), Vec::new(), Vec::new()];
        let mut places = Vec::new();
        for machine in &world.machines {
            if let Some(place) = machine.place {
                of[continent(&machine.name)].push(places.len());
                places.push(place);
            }
        }
        let ranks = [0, 1, 2].map(|one: usize| Zipf::new(of[one].len(), plan.city_exponent));
        Cities { places, of, ranks }
    }

    fn draw(&self, plan: &PlayersPlan, rng: &mut Stream) -> usize {
        let unit = rng.unit();
        let continent = match unit {
            unit if unit <= plan.north_america_ratio => 0,
            unit if unit <= plan.north_america_ratio + plan.europe_ratio => 1,
            _ => 2,
        };
        self.of[continent][self.ranks[continent].draw(rng)]
    }
}

/// What a database says of a player at `place`.
fn said(plan: &PlayersPlan, place: Point, cities: &Cities, rng: &mut Stream) -> Point {
    let mut unit = rng.unit();
    for (share, least, most) in &plan.said_error_km {
        if unit <= *share {
            return away(place, least + (most - least) * rng.unit(), rng);
        }
        unit -= share;
    }
    loop {
        let other = cities.places[rng.below(cities.places.len() as u64) as usize];
        if region(other) != region(place) {
            return other;
        }
    }
}

/// The median stretch by distance: linear in the logarithm, flat beyond both ends.
#[derive(Clone, Debug)]
struct Stretch {
    points: Vec<(f64, f64)>,
    /// Logarithm of each distance but the first, over the one before it.
    steps: Vec<f64>,
}

impl Stretch {
    fn new(points: &[(f64, f64)]) -> Stretch {
        let steps = points.windows(2).map(|pair| libm::log(pair[1].0 / pair[0].0)).collect();
        Stretch { points: points.to_vec(), steps }
    }

    fn median(&self, km: f64) -> f64 {
        let points = &self.points;
        let after = points.partition_point(|(at, _)| *at < km);
        match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
            (Some((low, a)), Some((_, b))) => {
                a + (b - a) * (libm::log(km / low) / self.steps[after - 1])
            }
            (None, Some((_, only))) => *only,
            (Some((_, only)), None) => only,
            (None, None) => 1.0,
        }
    }
}

/// Refuses players that nobody can make up.
pub fn check(plan: &PlayersPlan) -> Result<(), PlanError> {
    let field = |key: &str, value: String, must: &str| {
        Err(PlanError::field(format!("data.{key}"), value, must))
    };
    if !(2..=5_000_000).contains(&plan.count) {
        return field("count", plan.count.to_string(), "2 to 5000000");
    }
    let ratios = [
        ("north_america_ratio", plan.north_america_ratio),
        ("europe_ratio", plan.europe_ratio),
        ("detour_ratio", plan.detour_ratio),
        ("giants_ratio", plan.giants_ratio),
        ("passing_ratio", plan.passing_ratio),
    ];
    for (key, value) in ratios {
        if !(0.0..=1.0).contains(&value) {
            return field(key, value.to_string(), "0 to 1");
        }
    }
    let sum = plan.north_america_ratio + plan.europe_ratio;
    if sum > 1.0 {
        let must = "at most 1 together with `north_america_ratio`";
        return field("europe_ratio", plan.europe_ratio.to_string(), must);
    }
    let sizes = [
        ("city_exponent", plan.city_exponent, 10.0),
        ("city_radius_km", plan.city_radius_km, 10_000.0),
        ("stretch_area_sigma", plan.stretch_area_sigma, 5.0),
        ("stretch_pair_sigma", plan.stretch_pair_sigma, 5.0),
        ("border_mean_ms", plan.border_mean_ms, 1_000.0),
        ("system_exponent", plan.system_exponent, 10.0),
        ("noise_mean_ratio", plan.noise_mean_ratio, 10.0),
    ];
    for (key, value, most) in sizes {
        if !(0.0..=most).contains(&value) {
            return field(key, value.to_string(), &format!("0 to {most}"));
        }
    }
    if !(plan.access_median_ms > 0.0 && plan.access_median_ms <= 1_000.0) {
        return field("access_median_ms", plan.access_median_ms.to_string(), "above 0, to 1000");
    }
    if !(plan.access_p90_ms >= plan.access_median_ms && plan.access_p90_ms <= 5_000.0) {
        let must = "at least `access_median_ms`, at most 5000";
        return field("access_p90_ms", plan.access_p90_ms.to_string(), must);
    }
    if !(1.0..=90.0).contains(&plan.area_deg) {
        return field("area_deg", plan.area_deg.to_string(), "1 to 90");
    }
    let rising = plan.stretch.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let sound = |(km, stretch): &(f64, f64)| *km > 0.0 && (1.0..=100.0).contains(stretch);
    if plan.stretch.is_empty() || !rising || !plan.stretch.iter().all(sound) {
        let must = "pairs of rising kilometers above 0 and of stretches from 1 to 100";
        return field("stretch", format!("{:?}", plan.stretch), must);
    }
    for (key, (least, most), limit) in [
        ("detour_ms", plan.detour_ms, 5_000.0),
        ("same_system_saving", plan.same_system_saving, 1.0),
    ] {
        if !(0.0 <= least && least <= most && most <= limit) {
            let must = format!("a least and a greatest value from 0 to {limit}");
            return field(key, format!("{least} to {most}"), &must);
        }
    }
    let shares: f64 = plan.said_error_km.iter().map(|(share, ..)| share).sum();
    let band = |(share, least, most): &(f64, f64, f64)| {
        *share >= 0.0 && 0.0 <= *least && least <= most && *most <= PI * 6_371.0
    };
    if !plan.said_error_km.iter().all(band) || shares > 1.0 + 1e-9 {
        let must = "shares of together at most 1, each with a least and a greatest distance";
        return field("said_error_km", format!("{:?}", plan.said_error_km), must);
    }
    for (key, value, most) in [
        ("systems_per_city", plan.systems_per_city, 1_000),
        ("noise_shape", plan.noise_shape, 100),
        ("days", plan.days, 3_650),
        ("passing_days_max", plan.passing_days_max, plan.days),
    ] {
        if value == 0 || value > most {
            return field(key, value.to_string(), &format!("1 to {most}"));
        }
    }
    if plan.giants > 1_000 {
        return field("giants", plan.giants.to_string(), "0 to 1000");
    }
    for (key, (least, most)) in [("candidates", plan.candidates), ("probed", plan.probed)] {
        if least == 0 || least > most || most > 10_000 {
            let must = "a least and a greatest number from 1 to 10000";
            return field(key, format!("{least} to {most}"), must);
        }
    }
    Ok(())
}
