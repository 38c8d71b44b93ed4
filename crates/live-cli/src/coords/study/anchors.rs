//! Anchors that are drawn, and how far apart they are.

use cavy_coords::Point;
use cavy_core::{Purpose, Stream};
use cavy_kinds::coords::data;
use cavy_kinds::coords::world::World;
use std::net::{IpAddr, Ipv4Addr};

/// Some machines of a world that all measured each other, one a country.
pub struct Anchors {
    world: World,
    /// Numbers in the world.
    chosen: Vec<u32>,
}

impl Anchors {
    /// Draws at most `count` of them.
    pub fn draw(count: u16, seed: u64) -> Anchors {
        let world = data::named("ripe-2018").unwrap_or_else(|| unreachable!("carried"));
        let mut rng = Stream::keyed(seed, 0, Purpose::Destinations);
        let mut all: Vec<u32> = (0..world.count()).collect();
        for index in 0..all.len() {
            let other = index + rng.below((all.len() - index) as u64) as usize;
            all.swap(index, other);
        }
        let country = |one: u32| world.machines[one as usize].name.get(..3).unwrap_or("");
        let mut chosen: Vec<u32> = Vec::new();
        for one in all {
            let located = world.machines[one as usize].said.is_some();
            // Names begin with a country: `de-muc-as5539`.
            let fits = |known: &u32| {
                country(*known) != country(one) && world.rtt_ms(*known, one).is_some()
            };
            if located && country(one).ends_with('-') && chosen.iter().all(fits) {
                chosen.push(one);
            }
            if chosen.len() == usize::from(count) {
                break;
            }
        }
        Anchors { world, chosen }
    }

    pub fn count(&self) -> usize {
        self.chosen.len()
    }

    pub fn credits(&self) -> &[&str] {
        self.world.credits
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.chosen.iter().map(|one| self.world.machines[*one as usize].name.as_str())
    }

    /// The longest round trip of all pairs, milliseconds.
    pub fn longest_ms(&self) -> f64 {
        let pairs = (0..self.count()).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs.map(|(a, b)| self.rtt_ms(a, b)).fold(0.0, f64::max)
    }

    /// The measured round trip, milliseconds.
    pub fn rtt_ms(&self, a: usize, b: usize) -> f64 {
        self.world.rtt_ms(self.chosen[a], self.chosen[b]).unwrap_or(0.0)
    }

    /// Where a database says that it is.
    pub fn said(&self, one: usize) -> Point {
        let said = self.world.machines[self.chosen[one] as usize].said;
        said.unwrap_or_else(|| unreachable!("only those with a place are drawn"))
    }

    /// The other side of the world from there: what a wrong row says.
    pub fn opposite(&self, one: usize) -> Point {
        let said = self.said(one);
        let [x, y, z] = said.vector();
        Point::from_vector([-x, -y, -z]).unwrap_or(said)
    }

    /// Its address, of the block for measurements.
    pub fn address(one: usize) -> Ipv4Addr {
        let [high, low] = (one as u16 + 1).to_be_bytes();
        Ipv4Addr::new(198, 18, high, low)
    }

    /// Which anchor has this address.
    pub fn of_address(&self, ip: IpAddr) -> Option<usize> {
        (0..self.count()).find(|one| IpAddr::V4(Self::address(*one)) == ip)
    }

    /// Percentiles 50 and 90 of the absolute errors of all pairs, milliseconds; of one anchor's
    /// pairs if it is named.
    pub fn errors(&self, of: Option<usize>, said: impl Fn(usize, usize) -> f64) -> (f64, f64) {
        let mut all = Vec::new();
        for a in 0..self.count() {
            for b in 0..a {
                if of.is_none_or(|of| of == a || of == b) {
                    all.push((said(a, b) - self.rtt_ms(a, b)).abs());
                }
            }
        }
        (quantile(&mut all, 0.5), quantile(&mut all, 0.9))
    }
}

/// The value that so many are at most.
pub fn quantile(all: &mut [f64], share: f64) -> f64 {
    all.sort_by(f64::total_cmp);
    let rank = (all.len() as f64 * share).ceil() as usize;
    all.get(rank.clamp(1, all.len().max(1)) - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_drawn_are_of_different_countries_and_know_each_other() {
        let anchors = Anchors::draw(20, 1);
        let mut countries: Vec<&str> = anchors.names().filter_map(|name| name.get(..2)).collect();
        countries.sort_unstable();
        countries.dedup();
        assert_eq!((anchors.count(), countries.len()), (20, 20));
        assert!((0..20).all(|a| (0..a).all(|b| anchors.rtt_ms(a, b) > 0.0)));
        assert_eq!(anchors.of_address(Anchors::address(7).into()), Some(7));
        assert_eq!(anchors.errors(None, |a, b| anchors.rtt_ms(a, b) + 3.0), (3.0, 3.0));
    }
}
