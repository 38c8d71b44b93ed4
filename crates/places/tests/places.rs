//! Where addresses are: databases that change, break and know little.

use cavy_places::write::{Row, database};
use cavy_places::{Cities, Places, Rung};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

fn row(prefix: &str, place: Option<(f64, f64)>, country: Option<&str>, system: u32) -> Row {
    let country = country.map(str::to_string);
    Row { prefix: prefix.to_string(), place, country, system: Some(system) }
}

fn rows() -> Vec<Row> {
    vec![
        row("198.51.0.0/16", Some((50.1, 8.7)), Some("DE"), 64_500),
        row("198.51.100.0/24", Some((35.7, 139.7)), Some("JP"), 64_501),
        row("203.0.113.0/24", None, Some("BR"), 64_502),
        row("2001:db8::/32", Some((-33.9, 151.2)), Some("AU"), 64_503),
        row("10.0.0.0/8", Some((f64::NAN, 500.0)), Some("XX"), 64_504),
    ]
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn written(path: &Path, rows: &[Row]) {
    fs::write(path, database(rows).expect("a database")).expect("written");
}

#[test]
fn the_ladder_goes_from_position_to_country_to_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("own.mmdb");
    written(&file, &rows());
    let mut places = Places::new(Some(file.clone()), Some(file));
    assert_eq!(places.refresh(), Vec::<String>::new());
    for (at, rung, latitude, system) in [
        ("198.51.7.1", Rung::Address, Some(50.1), 64_500),
        ("198.51.100.200", Rung::Address, Some(35.7), 64_501),
        ("198.51.101.0", Rung::Address, Some(50.1), 64_500),
        ("203.0.113.9", Rung::Country, Some(-10.0), 64_502),
        ("2001:db8:1::1", Rung::Address, Some(-33.9), 64_503),
        // Very large: its heights are not corrected; and its position is none.
        ("10.1.2.3", Rung::Nowhere, None, 0),
        ("192.0.2.1", Rung::Nowhere, None, 0),
        ("2001:db9::", Rung::Nowhere, None, 0),
    ] {
        let found = places.find(ip(at));
        let place = found.known.address.or(found.known.country);
        assert_eq!((found.rung, found.system), (rung, system), "{at}");
        let near = |a: Option<f64>| a.map(|a| (a * 10.0).round() as i64);
        assert_eq!(near(place.map(|place| place.degrees().0)), near(latitude), "{at}");
    }
}

/// As DB-IP's are.
#[test]
fn a_database_that_describes_itself_in_no_language_is_read_and_a_torn_one_is_not() {
    let mut bytes = database(&rows()).expect("a database");
    let name = b"description";
    let at = bytes.windows(name.len()).rposition(|window| window == name).expect("it is there");
    bytes.truncate(at + name.len());
    // A map of nothing.
    bytes.push(7 << 5);
    let cities = Cities::read(bytes.clone()).expect("a database");
    assert_eq!(cities.find(ip("198.51.7.1")).rung, Rung::Address);
    assert_eq!(cities.find(ip("192.0.2.1")).rung, Rung::Nowhere);
    // The first link leads beyond the end.
    bytes[1] = 0x40;
    assert!(Cities::read(bytes).is_err());
}

/// One record for all addresses of IPv4, without parts and with numbers of single precision: what
/// npm's packages of DB-IP have.
#[test]
fn a_record_without_parts_is_read() {
    let text = |value: &str| [&[2 << 5 | value.len() as u8], value.as_bytes()].concat();
    let single = |value: f32| [&[4, 8][..], &value.to_be_bytes()].concat();
    let short = |value: u8| vec![5 << 5 | 1, value];
    let map = |fields: &[(&str, Vec<u8>)]| {
        let all = fields.iter().flat_map(|(name, value)| [text(name), value.clone()].concat());
        [7 << 5 | fields.len() as u8].into_iter().chain(all).collect::<Vec<u8>>()
    };
    let record = map(&[
        ("city", text("Hanover")),
        ("country_code", text("DE")),
        ("latitude", single(52.375)),
        ("longitude", single(9.75)),
    ]);
    // Both links of the only node lead to the first byte of the data.
    let mut bytes = [&[0, 0, 17, 0, 0, 17][..], &[0; 16], &record].concat();
    bytes.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    bytes.extend(map(&[
        ("binary_format_major_version", short(2)),
        ("binary_format_minor_version", short(0)),
        ("ip_version", short(4)),
        ("record_size", short(24)),
        ("node_count", vec![6 << 5 | 1, 1]),
        ("build_epoch", vec![1, 2, 1]),
        ("database_type", text("city ipv4")),
        ("languages", vec![0, 4]),
        ("description", map(&[])),
    ]));
    let found = Cities::read(bytes).expect("a database").find(ip("193.99.144.80"));
    assert_eq!((found.rung, found.anycast), (Rung::Address, false));
    let place = found.known.address.expect("a place").degrees();
    assert!((place.0 - 52.375).abs() < 1e-9 && (place.1 - 9.75).abs() < 1e-9, "{place:?}");
    assert!(found.known.country.is_some());
}

#[test]
fn a_changed_file_is_taken_up_and_a_broken_one_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("own.mmdb");
    let mut places = Places::new(Some(file.clone()), None);
    let said = places.refresh();
    assert!(said.len() == 1 && said[0].contains("own.mmdb"), "{said:?}");
    assert_eq!(places.refresh().len(), 0, "once");
    assert_eq!(places.find(ip("198.51.100.1")).rung, Rung::Nowhere);
    written(&file, &rows());
    places.refresh();
    assert_eq!(places.find(ip("198.51.100.1")).rung, Rung::Address);
    // Torn at every length, altered: whatever it is, nothing panics and what was known stays.
    let whole = database(&rows()).expect("a database");
    for length in (0..whole.len()).step_by(5) {
        fs::write(&file, &whole[..length]).expect("written");
        places.refresh();
        assert_eq!(places.find(ip("198.51.100.1")).rung, Rung::Address, "{length}");
    }
    fs::write(&file, b"not a database").expect("written");
    let said = places.refresh();
    assert!(said.len() == 1 && said[0].contains("stays in force"), "{said:?}");
    assert_eq!(places.refresh().len(), 0, "once");
    written(&file, &rows()[2..]);
    let said = places.refresh();
    assert!(said.len() == 1 && said[0].contains("took up"), "{said:?}");
    assert_eq!(places.find(ip("198.51.100.1")).rung, Rung::Nowhere);
}

#[test]
fn any_altered_byte_is_refused_or_gives_an_answer_and_never_a_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("own.mmdb");
    let whole = database(&rows()).expect("a database");
    for at in (0..whole.len()).step_by(5) {
        let mut altered = whole.clone();
        altered[at] ^= 0xff;
        fs::write(&file, &altered).expect("written");
        let mut places = Places::new(Some(file.clone()), Some(file.clone()));
        places.refresh();
        for (address, _) in [("198.51.100.1", 0), ("203.0.113.1", 0), ("2001:db8::1", 0)] {
            let found = places.find(ip(address));
            if let Some(place) = found.known.address {
                let (latitude, longitude) = place.degrees();
                assert!(latitude.abs() <= 90.0 && longitude.abs() <= 180.0);
            }
        }
    }
}

#[test]
fn systems_are_read_from_lines_by_the_longest_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("systems.txt");
    fs::write(&file, "# announced\n198.51.0.0/16 64500\n198.51.100.0/24\tAS64501\n\n::/0,7\n")
        .expect("written");
    let mut places = Places::new(None, Some(file.clone()));
    assert_eq!(places.refresh(), Vec::<String>::new());
    assert_eq!(places.find(ip("198.51.100.1")).system, 64_501);
    assert_eq!(places.find(ip("198.51.99.1")).system, 64_500);
    assert_eq!(places.find(ip("2001::1")).system, 7);
    fs::write(&file, "198.51.0.0/16 64500\n198.51.0.0/99 1\n").expect("written");
    let said = places.refresh();
    assert!(said.len() == 1 && said[0].contains("line 2"), "{said:?}");
}

#[test]
fn what_cannot_be_written_is_named() {
    let wrong = |row: Row| database(&[row]).expect_err("refused");
    assert!(wrong(row("198.51.0.0/33", None, None, 1)).contains("198.51.0.0/33"));
    assert!(wrong(row("198.51.0.0/16", None, Some("Japan"), 1)).contains("Japan"));
}
