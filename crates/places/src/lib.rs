//! Where addresses are, by databases that the user has, and the ladder for when none says
//! ([htrae 2.9]).
//!
//! [`Cities`] is one database that was read, for who asks once; [`Places`] watches files of cities
//! and of systems, for who runs for long.
//!
//! A database of cities in MaxMind's format gives position, country and anycast; one of systems, in
//! the same format or as lines `PREFIX NUMBER`, the autonomous system by its longest prefix. Files
//! that change are taken up while the program runs; one that is broken is said once and leaves the
//! last good one in force. Where no position is known, the middle of the country is next, then
//! nothing: an agent then takes the place of its nearest peer after three probes. Nobody begins at
//! a random place.
//!
//! The program carries no database. Whoever shows answers of one credits it as its licence demands.

pub mod countries;
pub mod systems;
pub mod write;

use cavy_coords::Point;
use cavy_coords::start::Known;
use maxminddb::{Reader, geoip2};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use systems::Systems;

/// Which rung of the ladder a place is from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The database has a position for the address.
    Address,
    /// It has a country.
    Country,
    /// It has neither: the nearest of the first peers will do.
    Nowhere,
}

/// What is known of an address.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// Its place.
    pub known: Known,
    /// The rung.
    pub rung: Rung,
    /// Its effective system: 0 when unknown or very large ([htrae 2.6]).
    pub system: u32,
    /// The database says that several machines share it.
    pub anycast: bool,
}

impl Found {
    /// Of an address that nobody knows.
    pub const NOTHING: Found = Found {
        known: Known { address: None, country: None },
        rung: Rung::Nowhere,
        system: 0,
        anycast: false,
    };
}

/// Which file it is, as far as the system says without reading it.
type Stamp = Option<(u64, SystemTime)>;

fn stamp(path: &Path) -> Stamp {
    let about = fs::metadata(path).ok()?;
    Some((about.len(), about.modified().ok()?))
}

/// A file, what was read of it, and what of it was complained about.
#[derive(Debug)]
struct Watched<T> {
    path: PathBuf,
    stamp: Stamp,
    content: Option<T>,
    complaint: Option<String>,
}

impl<T> Watched<T> {
    fn new(path: PathBuf) -> Watched<T> {
        Watched { path, stamp: None, content: None, complaint: None }
    }

    /// Reads the file if it is another one than before. What there is to say about it, once.
    fn look(&mut self, read: impl FnOnce(Vec<u8>) -> Result<T, String>) -> Option<String> {
        let now = stamp(&self.path);
        if now == self.stamp && (now.is_some() || self.complaint.is_some()) {
            return None;
        }
        let taken_up = self.content.is_some();
        let bytes = fs::read(&self.path).map_err(|error| error.to_string());
        let path = self.path.display();
        self.stamp = now;
        match bytes.and_then(read) {
            Ok(content) => {
                self.content = Some(content);
                self.complaint = None;
                taken_up.then(|| format!("took up {path} anew"))
            }
            Err(why) => {
                let stays = if taken_up { "; what was read before stays in force" } else { "" };
                let complaint = format!("cannot use {path}: {why}{stays}");
                let said = self.complaint.replace(complaint.clone());
                (said.as_ref() != Some(&complaint)).then_some(complaint)
            }
        }
    }
}

/// A record without parts, as npm's packages of DB-IP's cities have it.
#[derive(serde::Deserialize)]
struct Flat<'a> {
    latitude: Option<Degrees>,
    longitude: Option<Degrees>,
    country_code: Option<&'a str>,
}

/// A number of single or of double precision.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Degrees {
    Said(f64),
}

/// A database of cities, or of countries, in MaxMind's format.
#[derive(Debug)]
pub struct Cities(Reader<Vec<u8>>);

impl Cities {
    /// Reads a whole file.
    ///
    /// # Errors
    /// What is wrong with it: one that ends early, or has wrong pointers, is found here and not at
    /// some address.
    pub fn read(mut bytes: Vec<u8>) -> Result<Cities, String> {
        let about = Reader::from_source(bytes.as_slice()).map(|reader| reader.metadata().clone());
        let about = about.map_err(|error| error.to_string())?;
        if about.description.is_empty() {
            write::described(&mut bytes, &about);
        }
        let reader = Reader::from_source(bytes).map_err(|error| error.to_string())?;
        reader.verify().map_err(|error| error.to_string())?;
        Ok(Cities(reader))
    }

    /// What it says of `ip`.
    pub fn find(&self, ip: IpAddr) -> Found {
        let Ok(found) = self.0.lookup(ip) else { return Found::NOTHING };
        let record = found.decode::<geoip2::City<'_>>().ok().flatten().unwrap_or_default();
        let mut place = record.location.latitude.zip(record.location.longitude);
        let mut code = record.country.iso_code.or(record.registered_country.iso_code);
        if place.is_none() && code.is_none() {
            let Ok(Some(flat)) = found.decode::<Flat<'_>>() else { return Found::NOTHING };
            let degrees = |said: Option<Degrees>| said.map(|Degrees::Said(degrees)| degrees);
            place = degrees(flat.latitude).zip(degrees(flat.longitude));
            code = flat.country_code;
        }
        let anycast = record.traits.is_anycast.unwrap_or(false);
        // A database may say anything, NaN too.
        let address =
            place.and_then(|(latitude, longitude)| Point::from_degrees(latitude, longitude));
        let country = code.and_then(countries::middle);
        let rung = match (address, country) {
            (Some(_), _) => Rung::Address,
            (None, Some(_)) => Rung::Country,
            (None, None) => Rung::Nowhere,
        };
        Found { known: Known { address, country }, rung, system: 0, anycast }
    }
}

/// Databases of places.
#[derive(Debug, Default)]
pub struct Places {
    cities: Option<Watched<Cities>>,
    systems: Option<Watched<Systems>>,
}

impl Places {
    /// With these files; [`Places::refresh`] reads them.
    pub fn new(cities: Option<PathBuf>, systems: Option<PathBuf>) -> Places {
        Places { cities: cities.map(Watched::new), systems: systems.map(Watched::new) }
    }

    /// Is there a file at all?
    pub fn is_empty(&self) -> bool {
        self.cities.is_none() && self.systems.is_none()
    }

    /// Reads files that are new or changed. What there is to say of them: each thing once.
    pub fn refresh(&mut self) -> Vec<String> {
        let cities = self.cities.as_mut().and_then(|file| file.look(Cities::read));
        let systems = self.systems.as_mut().and_then(|file| file.look(Systems::read));
        cities.into_iter().chain(systems).collect()
    }

    /// What is known of `ip`.
    pub fn find(&self, ip: IpAddr) -> Found {
        let system = self.systems.as_ref().and_then(|file| file.content.as_ref());
        let system = system.map_or(0, |systems| systems.effective(ip));
        let cities = self.cities.as_ref().and_then(|file| file.content.as_ref());
        let found = cities.map_or(Found::NOTHING, |cities| cities.find(ip));
        Found { system, ..found }
    }
}
