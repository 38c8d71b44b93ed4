//! What machines tell each other, in the integers of the wire ([htrae 7.1]), so that messages
//! compare and hash exactly.

use crate::config::Config;
use crate::model::Coordinate;
use crate::sphere::Point;
use cavy_core::family::message::Message;

/// Steps of a degree.
const DEGREE: f64 = 1e7;
/// Steps of a millisecond of height.
const HEIGHT: f64 = 10.0;
/// Steps of the relative error.
const ERROR: f64 = 1e4;

/// A coordinate as it is told: to 1e-7 degrees, 0.1 ms and 1e-4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Said {
    /// Latitude, 1e-7 degrees.
    pub latitude: i32,
    /// Longitude, 1e-7 degrees.
    pub longitude: i32,
    /// Height, 0.1 ms.
    pub height: u16,
    /// Relative error, 1e-4.
    pub error: u16,
    /// Effective system; 0 when unknown or very large.
    pub system: u32,
}

impl Said {
    /// Bytes on the wire.
    pub const BYTES: u64 = 16;

    /// What is told of `own`.
    pub fn of(own: &Coordinate) -> Said {
        let (latitude, longitude) = own.position.degrees();
        let whole = |value: f64, most: u16| libm::round(value).clamp(0.0, f64::from(most)) as u16;
        Said {
            latitude: libm::round(latitude * DEGREE) as i32,
            longitude: libm::round(longitude * DEGREE) as i32,
            height: whole(own.height_ms * HEIGHT, u16::MAX),
            error: whole(own.error * ERROR, u16::MAX).max(1),
            system: own.system,
        }
    }

    /// The coordinate that is told; `None` where a peer told what is none.
    pub fn coordinate(&self, config: &Config) -> Option<Coordinate> {
        let (latitude, longitude) =
            (f64::from(self.latitude) / DEGREE, f64::from(self.longitude) / DEGREE);
        let told = Coordinate {
            position: Point::from_degrees(latitude, longitude)?,
            height_ms: f64::from(self.height) / HEIGHT,
            error: f64::from(self.error) / ERROR,
            system: self.system,
            updates: 0,
        };
        told.is_sound(config).then_some(told)
    }
}

/// A round trip in whole microseconds, as agents measure and tell it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rtt(pub u32);

impl Rtt {
    /// In milliseconds.
    pub fn ms(self) -> f64 {
        f64::from(self.0) / 1e3
    }
}

/// What agents say.
// A gossip is long and rare; a box would be an allocation in a step.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// How far are you?
    Probe {
        /// Of another space nobody answers: coordinates of two spaces do not compare.
        space: u16,
        /// Names the probe; drawn at random.
        nonce: u64,
        /// What the asker says of itself, once it knows.
        said: Option<Said>,
    },
    /// So far: the answer to a probe, never longer than it.
    Reply {
        /// The probe's.
        nonce: u64,
        /// Microseconds between the probe's arrival and this reply.
        held_us: u32,
        /// What the answerer says of itself.
        said: Option<Said>,
        /// Must come back with feedback: only who was answered knows it ([htrae 0.8]).
        token: u64,
    },
    /// It took so long: for an update of the other end ([htrae 2.5]).
    Feedback {
        /// The probe's.
        nonce: u64,
        /// The reply's.
        token: u64,
        /// The round trip.
        rtt: Rtt,
        /// What the asker said of itself before it learnt from this probe.
        said: Said,
    },
    /// What was heard of others.
    Gossip {
        /// Who, what they said, and how many seconds ago.
        heard: [Option<(u32, Said, u16)>; GOSSIP],
    },
}

/// Others in one gossip, at most.
pub const GOSSIP: usize = 16;

impl Message for Word {
    fn wire_bytes(&self) -> u64 {
        // Four bytes name space and kind of a message; probes are padded to the length of replies.
        match self {
            Word::Probe { .. } | Word::Reply { .. } => 4 + 8 + 4 + Said::BYTES + 8,
            Word::Feedback { .. } => 4 + 8 + 8 + 4 + Said::BYTES,
            Word::Gossip { heard } => 4 + 22 * heard.iter().flatten().count().max(1) as u64,
        }
    }
}
