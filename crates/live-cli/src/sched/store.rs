//! The embedded store and its three operations `[persephone 4.1, 7.4]`.
//!
//! The paper's server keeps 5000 tiny keys in RocksDB; GET seeks one key, SCAN goes over all of
//! them. redb does the same here, and RocksDB behind a feature.

use redb::{
    Database, Durability, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
};
use std::path::Path;

/// Keys that a new store has, `key0` to `key4999` `[persephone 4.1]`.
pub const KEYS: u32 = 5_000;

/// What each of them holds.
const VALUE: &[u8] = b"value";

/// Why an operation failed.
#[derive(Debug, PartialEq, Eq)]
pub enum StoreError {
    /// It has as many keys as it may have.
    Full,
    /// The library says so.
    Library(String),
}

/// What a scan hands over for each pair; false ends it.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

/// A sorted map on disk.
pub trait Store: Send + Sync {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Sets the value of `key`, unless that would make more than `keys_max` keys.
    fn set(&self, key: &[u8], value: &[u8], keys_max: u64) -> Result<(), StoreError>;
    /// Goes over all pairs in order.
    fn scan(&self, visit: Visit<'_>) -> Result<(), StoreError>;
    /// How many keys there are.
    fn len(&self) -> Result<u64, StoreError>;
    /// Its name and version.
    fn name(&self) -> &'static str;
}

/// Opens `file`, or makes it. A store of nobody's need not survive a crash.
pub fn open(file: &Path, durable: bool) -> Result<Box<dyn Store>, StoreError> {
    #[cfg(feature = "rocksdb")]
    let store = super::rocks::Rocks::open(file, durable)?;
    #[cfg(not(feature = "rocksdb"))]
    let store = Redb::open(file, durable)?;
    if store.len()? == 0 {
        store.fill(KEYS)?;
    }
    Ok(Box::new(store))
}

const TABLE: redb::TableDefinition<'_, &[u8], &[u8]> = redb::TableDefinition::new("pairs");

/// redb: a B-tree with snapshots for readers and one writer at a time.
#[cfg_attr(feature = "rocksdb", allow(dead_code))]
pub struct Redb {
    database: Database,
    durability: Durability,
}

fn library(error: impl std::fmt::Display) -> StoreError {
    StoreError::Library(error.to_string())
}

#[cfg_attr(feature = "rocksdb", allow(dead_code))]
impl Redb {
    fn open(file: &Path, durable: bool) -> Result<Redb, StoreError> {
        let database = Database::create(file).map_err(library)?;
        let durability = if durable { Durability::Immediate } else { Durability::None };
        let store = Redb { database, durability };
        // A table that nobody wrote to is not there for readers.
        let write = store.begin_write()?;
        write.open_table(TABLE).map_err(library)?;
        write.commit().map_err(library)?;
        Ok(store)
    }

    fn begin_write(&self) -> Result<redb::WriteTransaction, StoreError> {
        let mut write = self.database.begin_write().map_err(library)?;
        write.set_durability(self.durability).map_err(library)?;
        Ok(write)
    }

    fn fill(&self, keys: u32) -> Result<(), StoreError> {
        let write = self.begin_write()?;
        {
            let mut table = write.open_table(TABLE).map_err(library)?;
            for number in 0..keys {
                let key = format!("key{number}");
                table.insert(key.as_bytes(), VALUE).map_err(library)?;
            }
        }
        write.commit().map_err(library)
    }
}

impl Store for Redb {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let read = self.database.begin_read().map_err(library)?;
        let table = read.open_table(TABLE).map_err(library)?;
        let found = table.get(key).map_err(library)?;
        Ok(found.map(|value| value.value().to_vec()))
    }

    fn set(&self, key: &[u8], value: &[u8], keys_max: u64) -> Result<(), StoreError> {
        let write = self.begin_write()?;
        {
            let mut table = write.open_table(TABLE).map_err(library)?;
            let full = table.len().map_err(library)? >= keys_max;
            if full && table.get(key).map_err(library)?.is_none() {
                return Err(StoreError::Full);
            }
            table.insert(key, value).map_err(library)?;
        }
        write.commit().map_err(library)
    }

    fn scan(&self, visit: Visit<'_>) -> Result<(), StoreError> {
        let read = self.database.begin_read().map_err(library)?;
        let table = read.open_table(TABLE).map_err(library)?;
        for pair in table.iter().map_err(library)? {
            let (key, value) = pair.map_err(library)?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }

    fn len(&self) -> Result<u64, StoreError> {
        let read = self.database.begin_read().map_err(library)?;
        let table = read.open_table(TABLE).map_err(library)?;
        table.len().map_err(library)
    }

    fn name(&self) -> &'static str {
        "redb"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_does_what_the_paper_asks_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("store");
        let store = open(&file, false).expect("a new store");
        assert_eq!(store.len(), Ok(5_000));
        assert_eq!(store.get(b"key4999"), Ok(Some(b"value".to_vec())));
        assert_eq!(store.get(b"key5000"), Ok(None));
        let (mut pairs, mut bytes) = (0, 0);
        let mut count = |_: &[u8], value: &[u8]| {
            pairs += 1;
            bytes += value.len();
            true
        };
        assert_eq!(store.scan(&mut count), Ok(()));
        assert_eq!((pairs, bytes), (5_000, 25_000));
        assert_eq!(store.set(b"key1", b"other", 5_000), Ok(()), "an old key needs no room");
        assert_eq!(store.set(b"new", b"x", 5_000), Err(StoreError::Full));
        assert_eq!(store.set(b"new", b"x", 5_001), Ok(()));
        assert_eq!(store.get(b"key1"), Ok(Some(b"other".to_vec())));
        assert_eq!(store.len(), Ok(5_001));
    }

    #[test]
    fn a_file_that_is_no_store_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("text");
        std::fs::write(&file, "not a store, but long enough to be looked at".repeat(100))
            .expect("a file");
        assert!(matches!(open(&file, true), Err(StoreError::Library(_))));
    }
}
