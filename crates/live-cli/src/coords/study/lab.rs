//! What the lab says to what agents measured, in their order, and to other orders ([`orders`]).

pub mod orders;

use super::anchors::Anchors;
use super::bed::{Place, Run, Trip};
use cavy_coords::Config;
use cavy_coords::Point;
use cavy_coords::history::Memory;
use cavy_coords::predictors::globe::Globe;
use cavy_coords::predictors::survey::{Parts, Survey};
use cavy_coords::predictors::{Predictor as _, Probe, Space as _};
use cavy_coords::start::Known;
use cavy_core::{Instant, Purpose, Stream};

fn known(run: &Run) -> Vec<(Known, u32)> {
    let point = |(latitude, longitude): &(f64, f64)| Point::from_degrees(*latitude, *longitude);
    run.said.iter().map(|said| (Known { address: point(said), country: None }, 0)).collect()
}

/// The lab's flagship, told the same measurements in the same order until each node had made as
/// many as each mark says: errors.
pub fn flagship(anchors: &Anchors, run: &Run, marks: &[u64], history: bool) -> Vec<(f64, f64)> {
    let parts = Parts { history, ..Parts::default() };
    let after = |mark: &u64| {
        let mut survey = Survey::new(Config::default(), parts, Memory::default(), known(run));
        let mut rng = Stream::keyed(1, 0, Purpose::Machine);
        let (mut made, mut now) = (vec![0; anchors.count()], Instant::ZERO);
        for one in &run.measured {
            made[one.from] += 1;
            now = Instant::from_ns(one.at_ns);
            if made[one.from] <= *mark {
                let (from, to, rtt_ms) = (one.from as u32, one.to as u32, one.rtt_ms);
                survey.learn(&Probe { from, to, rtt_ms, at: now }, &mut rng);
            }
        }
        // Everybody has a place, so it always says something.
        let said = |a: usize, b: usize| survey.predict_ms(a as u32, b as u32, now).unwrap_or(0.0);
        anchors.errors(None, said)
    };
    marks.iter().map(after).collect()
}

/// What happens in a replay, in order of time; at one moment in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The one who was asked says where he is.
    Replies(usize),
    /// The asker has the reply.
    Learns(usize),
    /// The other end has the feedback.
    IsTold(usize),
    /// An agent is looked at: the mark, and who.
    Look(usize, usize),
}

/// The lab's replay of the same probes, with the distances of the data and by how much the line
/// makes them longer in the middle: where each agent should be when it was looked at. Words take
/// half of a round trip each.
pub fn replayed(anchors: &Anchors, run: &Run, symmetric: bool) -> Vec<Vec<Place>> {
    let longer_ms = run.longer_ms(anchors, 0.5);
    let mut events: Vec<(u64, Event)> = Vec::new();
    let rtt_ms = |trip: &Trip| anchors.rtt_ms(trip.from, trip.to) + longer_ms;
    for (number, trip) in run.measured.iter().enumerate() {
        let half_ns = (rtt_ms(trip) / 2.0 * 1e6) as u64;
        events.push((trip.at_ns.saturating_sub(half_ns), Event::Replies(number)));
        events.push((trip.at_ns, Event::Learns(number)));
        if symmetric {
            events.push((trip.at_ns + half_ns, Event::IsTold(number)));
        }
    }
    for (mark, of) in run.places.iter().enumerate() {
        let look = |(one, place): (usize, &Place)| (place.at_ns, Event::Look(mark, one));
        events.extend(of.iter().enumerate().map(look));
    }
    events.sort_unstable();
    let mut globe = Globe::new(Config::default(), known(run)).in_whole_numbers();
    let mut rng = Stream::keyed(1, 0, Purpose::Machine);
    let mut replies = vec![None; run.measured.len()];
    let mut feedback = replies.clone();
    let mut all = run.places.clone();
    for (at_ns, event) in events {
        let at = Instant::from_ns(at_ns);
        match event {
            Event::Replies(number) => replies[number] = globe.said(run.measured[number].to as u32),
            Event::Learns(number) => {
                let trip = run.measured[number];
                let (from, to) = (trip.from as u32, trip.to as u32);
                feedback[number] = globe.said(from);
                globe.update(from, (to, &replies[number]), rtt_ms(&trip), at, &mut rng);
            }
            Event::IsTold(number) => {
                let trip = run.measured[number];
                let (from, to) = (trip.from as u32, trip.to as u32);
                globe.update(to, (from, &feedback[number]), rtt_ms(&trip), at, &mut rng);
            }
            Event::Look(mark, one) => {
                if let Some(own) = globe.coordinate(one as u32) {
                    let ((latitude, longitude), height_ms) =
                        (own.position.degrees(), own.height_ms);
                    all[mark][one] = Place { latitude, longitude, height_ms, at_ns };
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
