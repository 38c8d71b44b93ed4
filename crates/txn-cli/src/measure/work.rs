//! What clients do, and how a history tells it.

use super::client::Reply;
use cavy_core::{Instant, Stream};
use cavy_txn::{Layout, Shard};
use std::fmt::Write as _;

/// What clients do.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Moves an amount from one key to another. The sum of all is looked at in the end.
    Transfer,
    /// Reads and writes two keys. A history of it can be checked.
    Register,
    /// Appends to one list and reads another. A history of it can be checked.
    Append,
    /// TPC-C, one warehouse a shard, by `FCALL`. Its conditions are looked at in the end, and a
    /// history of it can be checked.
    Tpcc,
}

/// A sort of transactions, each of which touches two keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    Transfer,
    Register,
    Append,
}

impl Work {
    pub(super) fn name(self) -> &'static str {
        match self {
            Work::Transfer => "transfer",
            Work::Register => "register",
            Work::Append => "append",
            Work::Tpcc => "tpcc",
        }
    }

    /// The sort, where it is one of two keys.
    pub(super) fn sort(self) -> Option<Sort> {
        match self {
            Work::Transfer => Some(Sort::Transfer),
            Work::Register => Some(Sort::Register),
            Work::Append => Some(Sort::Append),
            Work::Tpcc => None,
        }
    }
}

/// Where the two keys of a transaction are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reach {
    Shard,
    Region,
    Across,
}

impl Reach {
    pub const ALL: [Reach; 3] = [Reach::Shard, Reach::Region, Reach::Across];

    pub fn name(self) -> &'static str {
        match self {
            Reach::Shard => "one shard",
            Reach::Region => "one region",
            Reach::Across => "across regions",
        }
    }
}

/// What is drawn from.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    pub sort: Sort,
    pub layout: Layout,
    pub regions: Vec<String>,
    /// Of all transactions, how many cross regions; of the others, how many touch two shards.
    pub across: f64,
    pub two_shards: f64,
    /// Keys of each shard.
    pub keys: u64,
    /// What the keys of this run have in their names, and those of no other.
    pub run: String,
}

/// A key: on which shard, and which of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub shard: Shard,
    pub row: u64,
}

/// A transaction that is to be asked for.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub reach: Reach,
    pub places: [Place; 2],
    /// Unlike that of any other transaction.
    pub value: u64,
    amount: u64,
}

impl Mix {
    pub fn key(&self, place: Place) -> String {
        let each = self.layout.shards_per_region;
        let region = &self.regions[(place.shard.0 / each) as usize];
        format!("{{{region}-{}}}:{}:{}", place.shard.0 % each, self.run, place.row)
    }

    fn region(&self, place: Place) -> u16 {
        self.layout.region_of(place.shard).0
    }

    /// The next transaction of a client of `home`.
    pub fn draw(&self, draws: &mut Stream, home: Shard, value: u64) -> Asked {
        let (layout, region) = (self.layout, self.layout.region_of(home));
        let all = (0..layout.shards()).map(Shard);
        let (across, two) = (draws.unit() < self.across, draws.unit() < self.two_shards);
        let others: Vec<Shard> = if across {
            all.filter(|shard| layout.region_of(*shard) != region).collect()
        } else if two {
            all.filter(|shard| layout.region_of(*shard) == region && *shard != home).collect()
        } else {
            Vec::new()
        };
        let first = Place { shard: home, row: draws.below(self.keys) };
        let (shard, reach) = match others.len() as u64 {
            0 => (home, Reach::Shard),
            many => {
                let reach = if across { Reach::Across } else { Reach::Region };
                (others[draws.below(many) as usize], reach)
            }
        };
        let mut row = draws.below(self.keys);
        if shard == home && row == first.row {
            row = (row + 1) % self.keys;
        }
        let amount = 1 + draws.below(100);
        Asked { reach, places: [first, Place { shard, row }], value, amount }
    }

    pub fn requests(&self, asked: &Asked) -> Vec<Vec<String>> {
        let [one, other] = asked.places.map(|place| self.key(place));
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
        let (value, amount) = (asked.value.to_string(), asked.amount.to_string());
        match self.sort {
            Sort::Transfer => {
                vec![words(&["DECRBY", &one, &amount]), words(&["INCRBY", &other, &amount])]
            }
            Sort::Register => {
                vec![words(&["GETSET", &one, &value]), words(&["GETSET", &other, &value])]
            }
            Sort::Append => {
                vec![words(&["RPUSH", &one, &value]), words(&["LRANGE", &other, "0", "-1"])]
            }
        }
    }

    /// What a transaction did, as operations of a history; `None` for one of which nobody knows
    /// whether it took place, and what it then read.
    fn operations(&self, asked: &Asked, replies: Option<&[Reply]>) -> Option<String> {
        let [one, other] = asked.places.map(|place| self.key(place));
        let value = asked.value;
        let text = |at: usize| match replies.map(|replies| replies.get(at)) {
            Some(Some(Reply::Text(text))) => Some(text.clone()),
            Some(Some(Reply::Nil)) => Some("null".into()),
            _ => None,
        };
        Some(match (self.sort, replies) {
            (Sort::Transfer, _) => return None,
            (Sort::Register, None) => {
                format!("[\"w\",\"{one}\",{value}],[\"w\",\"{other}\",{value}]")
            }
            (Sort::Register, Some(_)) => {
                let (first, second) = (text(0)?, text(1)?);
                format!("[\"rw\",\"{one}\",{first},{value}],[\"rw\",\"{other}\",{second},{value}]")
            }
            (Sort::Append, None) => format!("[\"append\",\"{one}\",{value}]"),
            (Sort::Append, Some(replies)) => {
                let list = list(replies.get(1)?)?;
                format!("[\"append\",\"{one}\",{value}],[\"r\",\"{other}\",[{list}]]")
            }
        })
    }

    /// A line of a history. False where the replies are none that such a transaction has.
    pub fn tell(
        &self,
        history: &mut String,
        client: u32,
        asked: &Asked,
        times: (Instant, Instant),
        replies: Option<&[Reply]>,
    ) -> bool {
        let Some(operations) = self.operations(asked, replies) else { return false };
        let mut regions = asked.places.map(|place| self.region(place)).to_vec();
        regions.dedup();
        let (invoke, complete) = (times.0.as_ns(), times.1.as_ns());
        let end = match replies {
            Some(_) => format!("\"complete_ns\":{complete}"),
            None => "\"outcome\":\"unknown\"".into(),
        };
        // Into a string, which does not fail.
        let _ = writeln!(
            history,
            "{{\"txn\":\"{}\",\"type\":\"{}\",\"client\":{client},\"regions\":{regions:?},\
             \"invoke_ns\":{invoke},{end},\"ops\":[{operations}]}}",
            asked.value,
            asked.reach.name()
        );
        true
    }

    /// How keys of a shard are read in the end: those of these rows.
    pub fn reads(&self, shard: Shard, rows: std::ops::Range<u64>) -> Vec<Vec<String>> {
        let words = |row| {
            let key = self.key(Place { shard, row });
            match self.sort {
                Sort::Append => ["LRANGE", &key, "0", "-1"].map(String::from).to_vec(),
                Sort::Transfer | Sort::Register => ["GET", &key].map(String::from).to_vec(),
            }
        };
        rows.map(words).collect()
    }

    /// What was read in the end, as operations of a history.
    pub fn read_last(&self, place: Place, reply: &Reply) -> Option<String> {
        let key = self.key(place);
        let read = match reply {
            Reply::Text(text) => text.clone(),
            Reply::Nil => "null".into(),
            list_of => format!("[{}]", list(list_of)?),
        };
        Some(format!("[\"r\",\"{key}\",{read}]"))
    }
}

/// The members of a list, with commas.
fn list(reply: &Reply) -> Option<String> {
    let Reply::List(items) = reply else { return None };
    let texts = items.iter().map(|item| match item {
        Reply::Text(text) => Some(text.as_str()),
        _ => None,
    });
    Some(texts.collect::<Option<Vec<&str>>>()?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavy_core::Purpose;

    fn mix(sort: Sort) -> Mix {
        let regions = ["eu", "us"].map(String::from).to_vec();
        let layout = Layout { regions: 2, shards_per_region: 2, replicas: 3 };
        let run = "m".into();
        Mix { sort, layout, regions, across: 0.25, two_shards: 0.5, keys: 3, run }
    }

    #[test]
    fn shares_and_places_are_as_asked_for() {
        let mix = mix(Sort::Transfer);
        let mut draws = Stream::keyed(1, 0, Purpose::Arrivals);
        let mut counts = [0_u32; 3];
        for value in 0..4_000 {
            let asked = mix.draw(&mut draws, Shard(1), value);
            let [one, other] = asked.places;
            assert!(one.shard == Shard(1) && one != other);
            let region = mix.layout.region_of(other.shard).0;
            match asked.reach {
                Reach::Shard => assert_eq!(other.shard, Shard(1)),
                Reach::Region => assert_eq!(other.shard, Shard(0)),
                Reach::Across => assert_eq!(region, 1),
            }
            counts[asked.reach as usize] += 1;
        }
        // 37.5, 37.5 and 25 of a hundred, within four standard deviations.
        for (count, expected) in counts.into_iter().zip([1_500.0, 1_500.0, 1_000.0]) {
            assert!((f64::from(count) - expected).abs() < 125.0, "{counts:?}");
        }
        assert_eq!(mix.key(Place { shard: Shard(2), row: 7 }), "{us-0}:m:7");
    }

    #[test]
    fn what_was_answered_is_told_and_what_was_not_is_unknown() {
        let mix = mix(Sort::Register);
        let place = |shard, row| Place { shard: Shard(shard), row };
        let asked = |places| Asked { reach: Reach::Across, places, value: 42, amount: 1 };
        let asked = asked([place(0, 1), place(3, 2)]);
        let times = (Instant::from_ns(5), Instant::from_ns(9));
        let mut text = String::new();
        let replies = [Reply::Nil, Reply::Text("41".into())];
        assert!(mix.tell(&mut text, 7, &asked, times, Some(&replies)));
        let line = "{\"txn\":\"42\",\"type\":\"across regions\",\"client\":7,\"regions\":[0, 1],\
                    \"invoke_ns\":5,\"complete_ns\":9,\"ops\":[[\"rw\",\"{eu-0}:m:1\",null,42],\
                    [\"rw\",\"{us-1}:m:2\",41,42]]}\n";
        assert_eq!(text, line);
        text.clear();
        assert!(mix.tell(&mut text, 7, &asked, times, None));
        assert!(text.contains("\"outcome\":\"unknown\",\"ops\":[[\"w\",\"{eu-0}:m:1\",42]"));
        assert!(!mix.tell(&mut text, 7, &asked, times, Some(&[Reply::Int(1)])));
    }
}
