//! Bodies of `_bulk`. Lines come to what they ask for or to an error of the client; documents come
//! to values of fields that the mapping has, within its limits, and so they do once more.

use cavy_search_live::api::documents::{Action, items};
use cavy_search_live::api::mapping::{FIELDS, Mapping};
use cavy_search_live::engine::entry::{Entry, ring_id};
use serde_json::{Value, json};

pub fn run(bytes: &[u8]) {
    let items = match items(Some("books"), bytes) {
        Ok(items) => items,
        Err(error) => return assert!((400..500).contains(&error.status), "{error:?}"),
    };
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    assert!(!items.is_empty() && items.len() <= lines, "{} of {lines} lines", items.len());
    let taken: usize = items.iter().map(|item| item.body.len()).sum();
    assert!(taken < bytes.len(), "bodies of {taken} bytes, of {}", bytes.len());
    let known = json!({"properties": {
        "year": {"type": "integer"}, "on": {"type": "date"}, "printed": {"type": "boolean"},
        "title": {"type": "text", "fields": {"raw": {"type": "keyword", "ignore_above": 9}}},
        "at": {"properties": {"shelf": {"type": "byte"}, "price": {"type": "double"}}},
    }});
    let mut mapping = Mapping::read(&known).expect("a mapping");
    for (number, item) in items.iter().enumerate() {
        if item.action == Action::Delete {
            assert!(item.body.is_empty() && item.id.is_some());
            continue;
        }
        let Ok(source) = serde_json::from_slice::<Value>(&item.body) else { continue };
        let id = item.id.clone().unwrap_or_default();
        let (fields, more) = match mapping.values(&id, &source) {
            Ok(taken) => taken,
            Err(error) => {
                assert!((400..500).contains(&error.status), "{error:?}");
                continue;
            }
        };
        mapping = more.unwrap_or(mapping);
        assert!(mapping.all().count() <= FIELDS);
        for (path, typed) in &fields {
            let of = mapping.get(path).map(|field| field.of.kind());
            assert_eq!(of, Some(typed.kind()), "{path}: {typed:?}");
        }
        let (again, none) = mapping.values(&id, &source).expect("it was taken before");
        assert!(none.is_none() && again == fields, "{fields:?} {again:?}");
        // Its mapping is stored, and read when a node comes back.
        let read = Mapping::read(mapping.tree()).expect("a mapping is read again");
        assert!(read.all().eq(mapping.all()));
        let (seq_no, source) = (number as u64, item.body.clone());
        let entry = Entry { id, count: 1, seq_no, at_once: true, fields, source };
        assert_eq!(Entry::decode(&entry.encode()).as_ref(), Some(&entry));
        let _ = ring_id(1, &entry.id);
    }
}
