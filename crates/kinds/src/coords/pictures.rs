//! Maps of coordinates that are kept: where a fit has put nodes, and which sites are chosen.

use super::space::{Node, Placed, Space};
use super::world::World;
use cavy_coords::Point;
use cavy_report::model::{Form, Layer, Map, Mark, Way};
use std::collections::BTreeMap;

/// Who went farther than this is shown. Coordinates are places in time and not on the Earth, so all
/// of them move.
const FAR_KM: f64 = 2_000.0;
/// Lines to sites that are drawn at most.
const WAYS_MAX: usize = 2_000;

fn at(node: &Node) -> (f64, f64) {
    (node.lat, node.lon)
}

fn layer(label: &str, form: Form, marks: Vec<Mark>, ways: Vec<Way>) -> Layer {
    Layer { label: label.to_string(), form, marks, ways }
}

/// Where a fit has put nodes, and who went far from where it was said to be.
pub fn fitted(world: &World, space: &Space) -> Map {
    let said: BTreeMap<&str, Point> =
        world.machines.iter().filter_map(|m| Some((m.name.as_str(), m.said?))).collect();
    let (mut nodes, mut begun, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    for node in &space.nodes {
        let says = format!("height {:.1} ms, relative error {:.2}", node.height_ms, node.error);
        nodes.push(Mark { name: node.name.clone(), at: at(node), says });
        let now = Point::from_degrees(node.lat, node.lon);
        let Some((said, now)) = said.get(node.name.as_str()).zip(now) else { continue };
        let km = said.distance_km(now);
        if km > FAR_KM {
            let says = format!("{} moved {km:.0} km", node.name);
            let name = node.name.clone();
            begun.push(Mark { name, at: said.degrees(), says: "was said to be here".to_string() });
            moved.push(Way { from: said.degrees(), to: at(node), says });
        }
    }
    Map {
        id: "fit".to_string(),
        title: "Where the measurements put nodes".to_string(),
        caption: "A line leads from where a node was said to be to where its coordinate went, \
                  where that is more than 2000 km. A wrong row of a database looks like this, and \
                  so does a node that everybody reaches by a detour."
            .to_string(),
        layers: vec![
            layer("coordinates", Form::Dot, nodes, Vec::new()),
            layer("said to be elsewhere", Form::Ring, begun, Vec::new()),
            layer("moved more than 2000 km", Form::Dot, Vec::new(), moved),
        ],
    }
}

/// Which sites are chosen, and who goes to which.
pub fn placed(space: &Space, users: &[&Node], placed: &Placed) -> Map {
    let sites: Vec<&Node> = placed.sites.iter().filter_map(|name| space.node(name).ok()).collect();
    let mut served = vec![0u64; sites.len()];
    let (mut dots, mut ways) = (Vec::new(), Vec::new());
    for user in users {
        let to = |site: &Node| {
            if site.name == user.name { 0.0 } else { space.rtt(user, site).rtt_ms }
        };
        let near = (0..sites.len()).min_by(|a, b| to(sites[*a]).total_cmp(&to(sites[*b])));
        let Some(near) = near else { continue };
        served[near] += 1;
        let (site, ms) = (sites[near], to(sites[near]));
        let says = format!("{ms:.1} ms to {}", site.name);
        if ways.len() < WAYS_MAX && site.name != user.name {
            let says = format!("{}: {says}", user.name);
            ways.push(Way { from: at(user), to: at(site), says });
        }
        dots.push(Mark { name: user.name.clone(), at: at(user), says });
    }
    let chosen = sites.iter().zip(&served).map(|(site, count)| {
        let says = format!("nearest for {count} of {}", users.len());
        Mark { name: site.name.clone(), at: at(site), says }
    });
    Map {
        id: "place".to_string(),
        title: format!("{} sites for {} nodes", sites.len(), users.len()),
        caption: "A line leads from each node to its nearest site; distance on the map is not \
                  what a round trip takes."
            .to_string(),
        layers: vec![
            layer("nodes", Form::Dot, dots, Vec::new()),
            layer("to the nearest site", Form::Dot, Vec::new(), ways),
            layer("sites", Form::Square, chosen.collect(), Vec::new()),
        ],
    }
}
