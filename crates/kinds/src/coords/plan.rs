//! Plans for predictors of round trips as they are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who is near, before anybody has asked: predictors of round trips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoordsPlan {
    /// Machines, and how long round trips between them take.
    pub data: DataPlan,
    /// Which positions predictors are given. Default: what a database says of addresses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub positions: PositionsPlan,
    /// Share of machines whose position is moved to a random place before anything is predicted, 0
    /// to 1.
    #[serde(default)]
    pub wrong_positions_ratio: f64,
    /// Probes that each machine makes, 0 to 100000. Of a file of pairs: the first so many times the
    /// number of machines.
    pub probes_per_node: u32,
    /// Time between two probes of a machine.
    #[serde(default = "interval")]
    pub interval_s: f64,
    /// Each machine probes only so many others, drawn once. Default: all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<u32>,
    /// Share of machines that predictors with a map of the network know, 0 to 1. Errors over pairs
    /// of two such machines are reported beside those of all pairs, for every predictor.
    #[serde(default = "one")]
    pub covered_ratio: f64,
    /// The choice among candidates, after the last probe.
    #[serde(default)]
    pub picks: PicksPlan,
    /// Say what this share of all pairs, those with the worst predictions, have in common: above 0,
    /// at most 0.5. Of data with a matrix of at most 500 nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_ratio: Option<f64>,
    /// Draw a map of where the first replication's nodes ended, of predictors that think of places.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub map: bool,
    /// The predictors to compare.
    pub predictors: Vec<PredictorPlan>,
    /// Of a plan with one predictor: others meet the same, so it is worth keeping. No result
    /// depends on it.
    #[serde(skip)]
    pub has_rivals: bool,
}

pub(super) fn interval() -> f64 {
    15.0
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Machines, and how long round trips between them take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", deny_unknown_fields)]
pub enum DataPlan {
    /// 213 anchors of RIPE Atlas in 2018, with what DB-IP says of their addresses.
    #[serde(rename = "ripe-2018")]
    Ripe {},
    /// 32 regions of AWS in 2025.
    #[serde(rename = "aws-2025")]
    Aws {},
    /// 490 machines of PlanetLab, the median of 18 measurements. Nobody says where they were.
    #[serde(rename = "planetlab-490")]
    PlanetLab {},
    /// 99 personal devices of the Seattle testbed, the median of 688 measurements. Nobody says
    /// where they were.
    #[serde(rename = "seattle-99")]
    Seattle {},
    /// A square of round trips in milliseconds: rows and columns in the order of the nodes; empty
    /// cells were not measured. Both directions are averaged.
    #[serde(rename = "matrix")]
    Matrix {
        /// CSV file of round trips, without a line of heads.
        file: String,
        /// CSV file of nodes: `name`, and where known `lat`, `lon`, `true_lat`, `true_lon`, `asn`,
        /// `ip`.
        nodes: String,
        /// Database of cities in MaxMind's format. It says where nodes without `lat` and `lon` are,
        /// by their `ip`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mmdb: Option<String>,
    },
    /// Measured pairs, in the order in which they were measured.
    #[serde(rename = "pairs")]
    Pairs {
        /// CSV file of round trips: `from`, `to`, `rtt_ms`, and if known `time_s`.
        file: String,
        /// CSV file of nodes, as for a matrix.
        nodes: String,
        /// Database of cities, as for a matrix.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mmdb: Option<String>,
    },
    /// Players of a game, made up.
    #[serde(rename = "players")]
    Players(PlayersPlan),
}

/// Players that are made up, and their sessions ([htrae 4.4], decision 19).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlayersPlan {
    /// Players, 2 to 5000000.
    pub count: u32,
    /// Share that lives in North America.
    pub north_america_ratio: f64,
    /// Share that lives in Europe.
    pub europe_ratio: f64,
    /// Exponent of Zipf's law over the cities of a continent.
    pub city_exponent: f64,
    /// Players live within this distance of the middle of their city.
    pub city_radius_km: f64,
    /// Median time of an access link.
    pub access_median_ms: f64,
    /// 90th percentile of access links.
    pub access_p90_ms: f64,
    /// Median of the path's length over the great circle's at light's speed in fibre: pairs of
    /// kilometers and stretch, ascending.
    pub stretch: Vec<(f64, f64)>,
    /// Standard deviation of the stretch's logarithm between pairs of areas.
    pub stretch_area_sigma: f64,
    /// Standard deviation of the stretch's logarithm between pairs of players in them.
    pub stretch_pair_sigma: f64,
    /// Width and height of an area, degrees.
    pub area_deg: f64,
    /// Mean of the time between two regions.
    pub border_mean_ms: f64,
    /// Share of pairs that take a detour.
    pub detour_ratio: f64,
    /// The least and the greatest detour.
    pub detour_ms: (f64, f64),
    /// Share of access that two players in one small system save: the least and the greatest of
    /// systems.
    pub same_system_saving: (f64, f64),
    /// Small systems of a city.
    pub systems_per_city: u32,
    /// Exponent of Zipf's law over the small systems of a city.
    pub system_exponent: f64,
    /// Very large systems, within which nothing is saved.
    pub giants: u32,
    /// Share of players in them.
    pub giants_ratio: f64,
    /// By how much a probe is longer than the round trip, on average, over the round trip.
    pub noise_mean_ratio: f64,
    /// Shape of that gamma law, a whole number.
    pub noise_shape: u32,
    /// How wrong a database is: shares with the least and greatest distance; the rest is in a city
    /// of another region.
    pub said_error_km: Vec<(f64, f64, f64)>,
    /// Days.
    pub days: u32,
    /// Share of players who are there for a few days only.
    pub passing_ratio: f64,
    /// Days that these are there at most.
    pub passing_days_max: u32,
    /// Least and greatest number of candidates of a session.
    pub candidates: (u32, u32),
    /// Least and greatest number of them that are probed.
    pub probed: (u32, u32),
}

impl Default for PlayersPlan {
    fn default() -> Self {
        PlayersPlan {
            count: 10_000,
            north_america_ratio: 0.6,
            europe_ratio: 0.25,
            city_exponent: 0.9,
            city_radius_km: 30.0,
            access_median_ms: 9.0,
            access_p90_ms: 25.0,
            stretch: vec![
                (125.0, 3.6),
                (350.0, 3.1),
                (1_000.0, 2.7),
                (3_000.0, 2.0),
                (7_500.0, 1.6),
                (14_000.0, 1.9),
            ],
            stretch_area_sigma: 0.28,
            stretch_pair_sigma: 0.28,
            area_deg: 10.0,
            border_mean_ms: 12.0,
            detour_ratio: 0.04,
            detour_ms: (20.0, 150.0),
            same_system_saving: (0.2, 0.4),
            systems_per_city: 8,
            system_exponent: 1.0,
            giants: 10,
            giants_ratio: 0.3,
            noise_mean_ratio: 0.03,
            noise_shape: 2,
            said_error_km: vec![(0.78, 0.0, 50.0), (0.12, 50.0, 375.0), (0.06, 375.0, 1_600.0)],
            days: 30,
            passing_ratio: 0.7,
            passing_days_max: 3,
            candidates: (20, 50),
            probed: (4, 14),
        }
    }
}

/// Which positions predictors are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PositionsPlan {
    /// What a database says of addresses.
    #[default]
    Said,
    /// Where machines are, for comparison: nobody has that.
    True,
}

/// The choice among candidates, after the last probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PicksPlan {
    /// Numbers of candidates, ascending, each 2 to 1000.
    pub candidates: Vec<u32>,
    /// Choices of each machine for each number of candidates; of at most 10,000 machines.
    pub each: u32,
    /// A pick below this is good enough.
    pub below_ms: f64,
    /// So many of the candidates with the least predictions are probed, and the best of them taken:
    /// reported beside the pick without probing.
    pub probed: u32,
}

impl PicksPlan {
    /// From how many choices a node on it pays to make the predictor's probes once and then ask the
    /// best few each time: below that, asking all candidates each time takes fewer probes. `None`
    /// where the best few are all of them.
    pub fn pays_from(&self, probes_per_node: f64, candidates: u32) -> Option<f64> {
        let saved = candidates.checked_sub(self.probed).filter(|saved| *saved > 0)?;
        Some(probes_per_node / f64::from(saved))
    }
}

impl Default for PicksPlan {
    fn default() -> Self {
        PicksPlan { candidates: vec![2, 5, 10, 20, 50], each: 20, below_ms: 75.0, probed: 3 }
    }
}

/// A predictor, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "predictor", rename_all = "snake_case")]
pub enum PredictorPlan {
    /// Htrae: coordinates on the globe that begin where addresses are said to be, and move.
    Htrae(HtraePlan),
    /// What a service can say that sees all probes: distance and heights, what pairs of cells and
    /// nearby peers take longer, positions that measurements correct, and moving coordinates.
    Survey(SurveyPlan),
    /// Distance between where addresses are said to be. It never learns.
    Geolocation(GeolocationPlan),
    /// Vivaldi: a flat space with heights, learnt from nothing.
    Vivaldi(VivaldiPlan),
    /// Pyxida, as Azureus shipped it: all neighbours pull at once.
    Pyxida(PyxidaPlan),
    /// serf, which Consul and Nomad ship: Vivaldi in eight dimensions.
    Serf(LearnerPlan),
    /// The least sum of two legs over landmarks that everybody has measured. With
    /// `covered_ratio` below 1 it stands in for iPlane.
    Composition(LandmarksPlan),
    /// Everybody is where its nearest landmark is. Stands in for OASIS.
    Located(LandmarksPlan),
    /// One of the round trips that were seen, drawn for each pair.
    Random(LabelPlan),
    /// Knows every round trip.
    Oracle(LabelPlan),
}

/// A line from distance to round trip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a name such as \"least_absolute\" or a table of numbers")]
pub enum FitPlan {
    /// Fitted to all measured pairs.
    Fitted(FitName),
    /// This one.
    Given(LinePlan),
}

/// A line from distance to round trip, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinePlan {
    /// Milliseconds for a kilometer.
    pub ms_per_km: f64,
    /// Milliseconds for no distance.
    pub base_ms: f64,
}

/// How a line is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitName {
    /// The least sum of squares.
    LeastSquares,
    /// The least sum of absolute deviations.
    LeastAbsolute,
}

impl Default for FitPlan {
    fn default() -> Self {
        FitPlan::Fitted(FitName::LeastAbsolute)
    }
}

/// Htrae.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HtraePlan {
    /// Name in tables and plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// From distance to round trip. Default: least absolute deviations.
    pub fit: FitPlan,
    /// Both ends learn from a probe. Default: true.
    pub symmetric: bool,
    /// What was measured in the last hour beats any prediction. Default: true.
    pub history: bool,
    /// Heights within a system that is not very large count 0.8. Default: true.
    pub same_system: bool,
    /// A measurement above twice the estimate moves nobody. Default: false.
    pub detours: bool,
    /// Coordinates begin at random places, to see what geography is worth. Default: false.
    pub random_start: bool,
    /// Share of an error by which a coordinate moves. Default: 0.25.
    pub move_gain: f64,
    /// Added to `move_gain` at first, halved every eight updates. Default: 0.
    pub move_gain_extra: f64,
}

impl Default for HtraePlan {
    fn default() -> Self {
        HtraePlan {
            label: None,
            fit: FitPlan::default(),
            symmetric: true,
            history: true,
            same_system: true,
            detours: false,
            random_start: false,
            move_gain: 0.25,
            move_gain_extra: 0.0,
        }
    }
}

/// cavy's own predictor; each part can be switched off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SurveyPlan {
    /// Name in tables and plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// From distance to round trip. Default: least absolute deviations.
    pub fit: FitPlan,
    /// What was measured in the last hour beats any prediction. Default: true.
    pub history: bool,
    /// Means for pairs of cells of 20 degrees. Default: true.
    pub cells: bool,
    /// What both nodes measured to peers near the other one. Default: true.
    pub peers: bool,
    /// Positions are moved when measurements disprove them. Default: true.
    pub moves: bool,
    /// Moving coordinates have a say. Default: true.
    pub coordinates: bool,
}

impl Default for SurveyPlan {
    fn default() -> Self {
        SurveyPlan {
            label: None,
            fit: FitPlan::default(),
            history: true,
            cells: true,
            peers: true,
            moves: true,
            coordinates: true,
        }
    }
}

/// Geolocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GeolocationPlan {
    /// Name in tables and plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// From distance to round trip. Default: least absolute deviations.
    pub fit: FitPlan,
    /// What was measured in the last hour beats any prediction. Default: false.
    pub history: bool,
}

/// Vivaldi.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VivaldiPlan {
    /// Name in tables and plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Flat dimensions beside the height: 2, 3 or 8. Default: 2.
    pub dimensions: u32,
    /// Both ends learn from a probe. Default: false.
    pub symmetric: bool,
    /// What was measured in the last hour beats any prediction. Default: false.
    pub history: bool,
}

impl Default for VivaldiPlan {
    fn default() -> Self {
        VivaldiPlan { label: None, dimensions: 2, symmetric: false, history: false }
    }
}

/// Pyxida.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PyxidaPlan {
    /// Name in tables and plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Flat dimensions beside the height: 2 or 4. Default: 4.
    pub dimensions: u32,
    /// Both ends learn from a probe. Default: false.
    pub symmetric: bool,
    /// What was measured in the last hour beats any prediction. Default: false.
    pub history: bool,
}

impl Default for PyxidaPlan {
    fn default() -> Self {
        PyxidaPlan { label: None, dimensions: 4, symmetric: false, history: false }
    }
}

/// A predictor that learns and has nothing else to set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LearnerPlan {
    /// Name in tables and plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Both ends learn from a probe. Default: false.
    pub symmetric: bool,
    /// What was measured in the last hour beats any prediction. Default: false.
    pub history: bool,
}

/// A predictor by landmarks, which every machine that is covered measures before anything else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LandmarksPlan {
    /// Name in tables and plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Landmarks, 1 to 1000. Default: 20.
    pub landmarks: u32,
    /// Of pairs that are not covered it says the median leg, instead of nothing. Default: false.
    pub guess: bool,
    /// From distance to round trip, where places are answered. Default: least absolute deviations.
    pub fit: FitPlan,
}

impl Default for LandmarksPlan {
    fn default() -> Self {
        LandmarksPlan { label: None, landmarks: 20, guess: false, fit: FitPlan::default() }
    }
}

/// A predictor without settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabelPlan {
    /// Name in tables and plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// `name` with what is added to it.
fn with(name: &str, symmetric: bool, history: bool) -> String {
    let symmetric = if symmetric { ", symmetric" } else { "" };
    let history = if history { ", history" } else { "" };
    format!("{name}{symmetric}{history}")
}

impl PredictorPlan {
    /// The label it has, or was given.
    pub fn label(&self) -> String {
        let (given, own) = match self {
            PredictorPlan::Htrae(own) => (&own.label, with("Htrae", own.symmetric, own.history)),
            PredictorPlan::Survey(own) => (&own.label, with("survey", false, own.history)),
            PredictorPlan::Geolocation(own) => {
                (&own.label, with("geolocation", false, own.history))
            }
            PredictorPlan::Vivaldi(own) => {
                let name = format!("Vivaldi {}-D", own.dimensions);
                (&own.label, with(&name, own.symmetric, own.history))
            }
            PredictorPlan::Pyxida(own) => {
                let name = format!("Pyxida {}-D", own.dimensions);
                (&own.label, with(&name, own.symmetric, own.history))
            }
            PredictorPlan::Serf(own) => (&own.label, with("serf", own.symmetric, own.history)),
            PredictorPlan::Composition(own) => {
                (&own.label, format!("composition over {}", own.landmarks))
            }
            PredictorPlan::Located(own) => (&own.label, format!("nearest of {}", own.landmarks)),
            PredictorPlan::Random(own) => (&own.label, "random".to_string()),
            PredictorPlan::Oracle(own) => (&own.label, "oracle".to_string()),
        };
        given.clone().unwrap_or(own)
    }

    /// The label that it was given.
    pub fn given_label(&mut self) -> &mut Option<String> {
        match self {
            PredictorPlan::Htrae(own) => &mut own.label,
            PredictorPlan::Survey(own) => &mut own.label,
            PredictorPlan::Geolocation(own) => &mut own.label,
            PredictorPlan::Vivaldi(own) => &mut own.label,
            PredictorPlan::Pyxida(own) => &mut own.label,
            PredictorPlan::Serf(own) => &mut own.label,
            PredictorPlan::Composition(own) | PredictorPlan::Located(own) => &mut own.label,
            PredictorPlan::Random(own) | PredictorPlan::Oracle(own) => &mut own.label,
        }
    }
}
