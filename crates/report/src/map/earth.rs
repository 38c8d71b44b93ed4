//! The Earth on paper: the Equal Earth projection, land and the net of latitudes and longitudes.

use std::fmt::Write as _;
use std::sync::OnceLock;

/// Width of the whole world on the sheet.
pub(super) const WIDTH: f64 = 1000.0;
/// What is left out in the south: Antarctica, where nobody measures.
const SOUTH_DEG: f64 = -60.0;
const NORTH_DEG: f64 = 84.0;
/// Of Šavrič, Patterson and Jenny, "The Equal Earth map projection", 2018.
const A: [f64; 4] = [1.340264, -0.081106, 0.000893, 0.003796];

/// Land of Natural Earth, 1:110 million, in the public domain, coarsened to .2 degrees: outlines
/// with an empty line between them, each a place in tenths of degrees, longitude first, and then
/// steps from one place to the next. `examples/pack_land.rs` makes it.
const LAND: &str = include_str!("../../assets/land-110m.txt");

/// A place on the sheet: to the right, and down.
pub(super) type Spot = (f64, f64);

fn equal_earth(latitude: f64, longitude: f64) -> Spot {
    let theta = libm::asin(3f64.sqrt() / 2.0 * libm::sin(latitude.to_radians()));
    let square = theta * theta;
    let sixth = square * square * square;
    let [a1, a2, a3, a4] = A;
    let slope = a1 + 3.0 * a2 * square + sixth * (7.0 * a3 + 9.0 * a4 * square);
    let x = 2.0 * 3f64.sqrt() * longitude.to_radians() * libm::cos(theta) / (3.0 * slope);
    let y = theta * (a1 + a2 * square + sixth * (a3 + a4 * square));
    (x, y)
}

fn scale() -> f64 {
    WIDTH / (2.0 * equal_earth(0.0, 180.0).0)
}

/// Where a place is drawn. Latitudes beyond the sheet are drawn at its edge.
pub(super) fn spot(latitude: f64, longitude: f64) -> Spot {
    let latitude = latitude.clamp(SOUTH_DEG, NORTH_DEG);
    let (x, y) = equal_earth(latitude, longitude.clamp(-180.0, 180.0));
    (WIDTH / 2.0 + scale() * x, scale() * (equal_earth(NORTH_DEG, 0.0).1 - y))
}

/// Height of the whole world on the sheet.
pub(super) fn height() -> f64 {
    spot(SOUTH_DEG, 0.0).1
}

/// A line through spots, as the `d` of a path.
pub(super) fn line(out: &mut String, spots: impl IntoIterator<Item = Spot>, closed: bool) {
    // Whole tenths, so that steps add up to what they stand for.
    let tenth = |value: f64| (value * 10.0).round() as i64;
    let mut last: Option<(i64, i64)> = None;
    for (x, y) in spots {
        let here = (tenth(x), tenth(y));
        let number = |out: &mut String, value: i64| {
            let sign = if value < 0 { "-" } else { "" };
            let (whole, part) = (value.abs() / 10, value.abs() % 10);
            let _ = match part {
                0 => write!(out, "{sign}{whole}"),
                part => write!(out, "{sign}{whole}.{part}"),
            };
        };
        let (letter, (x, y)) = match last {
            None => ('M', here),
            Some(before) if before == here => continue,
            Some(before) => ('l', (here.0 - before.0, here.1 - before.1)),
        };
        out.push(letter);
        number(out, x);
        if y >= 0 {
            out.push(' ');
        }
        number(out, y);
        last = Some(here);
    }
    if closed && last.is_some() {
        out.push('z');
    }
}

/// The land, as the `d` of a path.
pub(super) fn land() -> &'static str {
    static DRAWN: OnceLock<String> = OnceLock::new();
    DRAWN.get_or_init(|| {
        let mut out = String::new();
        for ring in LAND.split("\n\n") {
            let (mut lon, mut lat) = (0.0, 0.0);
            let steps: Vec<f64> =
                ring.split_whitespace().filter_map(|step| step.parse().ok()).collect();
            let spots = steps.chunks_exact(2).map(|step| {
                lon += step[0];
                lat += step[1];
                spot(lat / 10.0, lon / 10.0)
            });
            line(&mut out, spots.collect::<Vec<_>>(), true);
        }
        out
    })
}

/// Latitudes and longitudes, 30 degrees apart, as the `d` of a path.
pub(super) fn net() -> &'static str {
    static DRAWN: OnceLock<String> = OnceLock::new();
    DRAWN.get_or_init(|| {
        let mut out = String::new();
        for lon in (-180..=180).step_by(30) {
            let south_to_north = (-60..=84).step_by(6);
            line(&mut out, south_to_north.map(|lat| spot(lat.into(), lon.into())), false);
        }
        for lat in (-60..=60).step_by(30) {
            line(&mut out, [-180, 180].map(|lon| spot(lat.into(), lon.into())), false);
        }
        out
    })
}

/// The shortest way between two places, in pieces that do not cross the edge of the sheet.
pub(super) fn way(from: (f64, f64), to: (f64, f64)) -> Vec<Vec<Spot>> {
    let vector = |(lat, lon): (f64, f64)| {
        let (lat, lon) = (lat.to_radians(), lon.to_radians());
        [libm::cos(lat) * libm::cos(lon), libm::cos(lat) * libm::sin(lon), libm::sin(lat)]
    };
    let (a, b) = (vector(from), vector(to));
    let dot: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    let angle = libm::acos(dot.clamp(-1.0, 1.0));
    let parts = (angle.to_degrees() / 3.0).ceil().clamp(1.0, 60.0);
    let mut pieces: Vec<Vec<Spot>> = vec![Vec::new()];
    let mut before: Option<f64> = None;
    for part in 0..=parts as u32 {
        let share = f64::from(part) / parts;
        let (p, q) = if libm::sin(angle) > 1e-6 {
            (libm::sin((1.0 - share) * angle), libm::sin(share * angle))
        } else {
            // On the spot, or antipodes: of those any way is the shortest, and none is drawn.
            (1.0 - share, share)
        };
        let at: Vec<f64> = a.iter().zip(&b).map(|(a, b)| p * a + q * b).collect();
        let lat = libm::atan2(at[2], libm::hypot(at[0], at[1])).to_degrees();
        let lon = libm::atan2(at[1], at[0]).to_degrees();
        if before.is_some_and(|before| (lon - before).abs() > 180.0) {
            pieces.push(Vec::new());
        }
        before = Some(lon);
        if let Some(piece) = pieces.last_mut() {
            piece.push(spot(lat, lon));
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_world_fits_the_sheet() {
        for lat in (-90..=90).step_by(5) {
            for lon in (-180..=180).step_by(5) {
                let (x, y) = spot(lat.into(), lon.into());
                assert!((-1e-9..=WIDTH + 1e-9).contains(&x), "{lat} {lon}: {x}");
                assert!((-1e-9..=height() + 1e-9).contains(&y), "{lat} {lon}: {y}");
            }
        }
        assert_eq!(spot(0.0, 0.0).0, WIDTH / 2.0);
        assert!(spot(50.0, 8.0).1 < spot(-34.0, 18.0).1, "north is up");
        assert!(spot(50.0, 8.0).0 < spot(35.0, 139.0).0, "east is right");
    }

    #[test]
    fn areas_are_true() {
        // A cell of ten degrees at 60 north has half the area of one at the equator, about.
        let area = |lat: f64| {
            let (left, right) = (spot(lat, 0.0), spot(lat, 10.0));
            let above = spot(lat + 10.0, 5.0);
            (right.0 - left.0 + spot(lat + 10.0, 10.0).0 - spot(lat + 10.0, 0.0).0) / 2.0
                * (left.1 - above.1)
        };
        let sines = |lat: f64| (lat + 10.0).to_radians().sin() - lat.to_radians().sin();
        let ratio = (area(60.0) / area(0.0)) / (sines(60.0) / sines(0.0));
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    }

    #[test]
    fn land_is_where_it_is() {
        // By the number of outlines that a line to the right crosses.
        let is_land = |lat: f64, lon: f64| {
            let (x, y) = spot(lat, lon);
            let mut crossed = 0;
            for ring in LAND.split("\n\n") {
                let (mut lon, mut lat) = (0.0, 0.0);
                let steps: Vec<f64> =
                    ring.split_whitespace().map(|step| step.parse().unwrap()).collect();
                assert!(steps.len() >= 6 && steps.len().is_multiple_of(2), "{ring}");
                let corners: Vec<Spot> = steps
                    .chunks_exact(2)
                    .map(|step| {
                        (lon, lat) = (lon + step[0], lat + step[1]);
                        assert!(lon.abs() <= 1800.0 && lat.abs() <= 900.0, "{lon} {lat}");
                        spot(lat / 10.0, lon / 10.0)
                    })
                    .collect();
                for (a, b) in corners.iter().zip(corners.iter().cycle().skip(1)) {
                    let at = a.0 + (y - a.1) / (b.1 - a.1) * (b.0 - a.0);
                    crossed += u32::from((a.1 > y) != (b.1 > y) && at > x);
                }
            }
            crossed % 2 == 1
        };
        for (lat, lon) in [(50.0, 10.0), (-25.0, 135.0), (40.0, -100.0), (0.0, 25.0), (65.0, 100.0)]
        {
            assert!(is_land(lat, lon), "{lat} {lon}");
        }
        for (lat, lon) in [(0.0, -30.0), (30.0, -150.0), (-40.0, 80.0), (43.0, 6.0), (75.0, 0.0)] {
            assert!(!is_land(lat, lon), "{lat} {lon}");
        }
        assert!(land().len() < 40_000, "{}", land().len());
    }

    #[test]
    fn a_way_across_the_date_line_is_in_two_pieces() {
        let tokyo_to_seattle = way((35.7, 139.7), (47.6, -122.3));
        assert_eq!(tokyo_to_seattle.len(), 2);
        assert_eq!(way((50.0, 8.0), (48.0, 2.0)).len(), 1);
        let ends = &tokyo_to_seattle[1];
        let seattle = spot(47.6, -122.3);
        let last = ends[ends.len() - 1];
        assert!((last.0 - seattle.0).abs() < 1e-6 && (last.1 - seattle.1).abs() < 1e-6);
    }
}
