//! A document as it is logged, copied and indexed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// What the values of a field are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// Words, scored.
    #[serde(rename = "t")]
    Text,
    /// One exact string.
    #[serde(rename = "k")]
    Keyword,
    /// A whole number of 64 bits; dates as milliseconds since 1970, false and true as 0 and 1.
    #[serde(rename = "l")]
    Long,
    /// A floating-point number of 64 bits.
    #[serde(rename = "d")]
    Double,
}

/// A value of a field.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Typed {
    /// For [`Kind::Text`].
    #[serde(rename = "t")]
    Text(String),
    /// For [`Kind::Keyword`].
    #[serde(rename = "k")]
    Keyword(String),
    /// For [`Kind::Long`].
    #[serde(rename = "l")]
    Long(i64),
    /// For [`Kind::Double`].
    #[serde(rename = "d")]
    Double(f64),
}

impl Typed {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Typed::Text(_) => Kind::Text,
            Typed::Keyword(_) => Kind::Keyword,
            Typed::Long(_) => Kind::Long,
            Typed::Double(_) => Kind::Double,
        }
    }
}

/// What precedes the source of a document.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Head {
    id: String,
    #[serde(rename = "v")]
    count: u64,
    #[serde(rename = "s")]
    seq_no: u64,
    /// `refresh=true` or `wait_for`: every later answer has it.
    #[serde(rename = "w", default, skip_serializing_if = "std::ops::Not::not")]
    at_once: bool,
    /// The indexed values, by the path of their field.
    #[serde(rename = "f", default)]
    fields: Vec<(String, Typed)>,
}

/// A document, or the word that it was deleted.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// `_id`.
    pub id: String,
    /// `_version`: counts writes of the document from 1.
    pub count: u64,
    /// `_seq_no`.
    pub seq_no: u64,
    /// Every answer after the acknowledgement has it, not only after the next refresh.
    pub at_once: bool,
    /// The indexed values, by the path of their field.
    pub fields: Vec<(String, Typed)>,
    /// `_source`: JSON, as the client wrote it. Empty when the document was deleted.
    pub source: Arc<[u8]>,
}

impl Entry {
    /// As it travels.
    pub fn encode(&self) -> Arc<[u8]> {
        let head = Head {
            id: self.id.clone(),
            count: self.count,
            seq_no: self.seq_no,
            at_once: self.at_once,
            fields: self.fields.clone(),
        };
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let mut bytes = Vec::with_capacity(4 + head.len() + self.source.len());
        bytes.extend_from_slice(&(head.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&self.source);
        bytes.into()
    }

    /// What [`Entry::encode`] wrote; `None` when it did not.
    pub fn decode(bytes: &[u8]) -> Option<Entry> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let head: Head = serde_json::from_slice(rest.get(..length)?).ok()?;
        let Head { id, count, seq_no, at_once, fields } = head;
        let source = rest.get(length..)?.into();
        Some(Entry { id, count, seq_no, at_once, fields, source })
    }

    /// `_source` as JSON.
    pub fn source(&self) -> Value {
        serde_json::from_slice(&self.source).unwrap_or(Value::Null)
    }
}

/// Where a document of an index is on the ring: a good hash of both names `[roar 2.1]`. The index
/// has a number, so that one of the same name that is created later has other ids.
pub fn ring_id(index: u32, id: &str) -> u64 {
    // FNV-1a over all bytes, then the finaliser of MurmurHash3, which mixes the top bits well.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in index.to_le_bytes().iter().chain(id.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_and_a_torn_one_is_refused() {
        let entry = Entry {
            id: "ä/1".into(),
            count: 3,
            seq_no: 17,
            at_once: true,
            fields: vec![
                ("title".into(), Typed::Text("one two".into())),
                ("price".into(), Typed::Double(0.1)),
                ("year".into(), Typed::Long(i64::MIN)),
            ],
            source: br#"{"title": "one two"}"#.as_slice().into(),
        };
        let bytes = entry.encode();
        assert_eq!(Entry::decode(&bytes), Some(entry));
        let head = 4 + u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
        (0..head).for_each(|end| assert_eq!(Entry::decode(&bytes[..end]), None, "{end}"));
    }

    #[test]
    fn clause_2_1_ids_spread_evenly() {
        let mut counts = [0_u32; 64];
        (0..64_000).for_each(|n| counts[(ring_id(1, &n.to_string()) >> 58) as usize] += 1);
        // A thousand each, give or take five standard deviations.
        assert!(counts.iter().all(|count| count.abs_diff(1_000) < 160), "{counts:?}");
    }
}
