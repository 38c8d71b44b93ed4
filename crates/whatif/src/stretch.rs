//! How long pauses may be beside a request whose time is predicted.
//!
//! A pause stands for the time by which the target would be faster. A request that begins and ends
//! between two pauses is as long as it was, and one that a pause meets is stretched by all of it.

use alloc::format;
use alloc::string::String;

/// So many pauses must fit into the median request, or its time is in doubt. Where clients wait for
/// their answers and keep the target busy, requests wait for most of their time, and this is enough
/// however the debt grows: at 3.5 pauses nothing was off by more than 1 %, at 1.3 all by 15 %. In
/// delivered mode means hold with any pause at a rate as well, while percentiles were up to 46 %
/// off at one pause or less, and up to 16 % at two to four.
const PAUSES: f64 = 2.0;
/// At a rate, where the debt grows in any other way. At two to four pauses 6 to 20 % were too much
/// where work varies, and up to 43 % where it does not; at four to eight, at most 10 and 17 %.
const PAUSES_AT_A_RATE: f64 = 4.0;

/// Pauses that are too long for what they say of the time of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct LongPauses {
    /// What is wrong with it, in words.
    pub why: String,
    /// With pauses of at most so many microseconds it would not be.
    pub pause_max_us: f64,
}

impl LongPauses {
    /// Are pauses of `pause_ms` too long for requests of which half are predicted to take at most
    /// `p50_ms`? `is_delivered`: the target gets a share of its time while others stand.
    /// `at_a_rate`: requests do not wait for earlier answers.
    pub fn of(is_delivered: bool, at_a_rate: bool, pause_ms: f64, p50_ms: f64) -> Option<Self> {
        let pauses = if at_a_rate && !is_delivered { PAUSES_AT_A_RATE } else { PAUSES };
        let wrong = if is_delivered {
            "those that a pause meets are stretched by all of it, so percentiles are predicted too \
             long or too short"
        } else {
            "those between two pauses are as long as they were, so latency is predicted to change \
             less than it would"
        };
        let why =
            || format!("pauses take {pause_ms:.2} ms, half of the requests {p50_ms:.2}: {wrong}");
        (pause_ms * pauses > p50_ms)
            .then(|| LongPauses { why: why(), pause_max_us: p50_ms * 1e3 / pauses })
    }
}
