//! RocksDB, the store of the paper, behind the feature `rocksdb`.

use super::store::{KEYS, Store, StoreError, Visit};
use rocksdb::{DB, IteratorMode, Options, WriteOptions};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

/// RocksDB with its defaults. The paper used plain tables, mmap and a prefix extractor.
pub struct Rocks {
    database: DB,
    write: WriteOptions,
    /// RocksDB only estimates how many keys it has.
    keys: Mutex<u64>,
}

fn library(error: rocksdb::Error) -> StoreError {
    StoreError::Library(error.to_string())
}

impl Rocks {
    /// Opens the folder `path`, or makes it.
    pub fn open(path: &Path, durable: bool) -> Result<Rocks, StoreError> {
        let mut options = Options::default();
        options.create_if_missing(true);
        let database = DB::open(&options, path).map_err(library)?;
        let mut write = WriteOptions::default();
        write.set_sync(durable);
        let keys = database.iterator(IteratorMode::Start).count() as u64;
        Ok(Rocks { database, write, keys: Mutex::new(keys) })
    }

    /// Writes the keys of a new store.
    pub fn fill(&self, keys: u32) -> Result<(), StoreError> {
        (0..keys).try_for_each(|n| self.set(format!("key{n}").as_bytes(), b"value", KEYS.into()))
    }
}

impl Store for Rocks {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.database.get(key).map_err(library)
    }

    fn set(&self, key: &[u8], value: &[u8], keys_max: u64) -> Result<(), StoreError> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let new = self.database.get(key).map_err(library)?.is_none();
        if new && *keys >= keys_max {
            return Err(StoreError::Full);
        }
        self.database.put_opt(key, value, &self.write).map_err(library)?;
        *keys += u64::from(new);
        Ok(())
    }

    fn scan(&self, visit: Visit<'_>) -> Result<(), StoreError> {
        for pair in self.database.iterator(IteratorMode::Start) {
            let (key, value) = pair.map_err(library)?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn len(&self) -> Result<u64, StoreError> {
        Ok(*self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn name(&self) -> &'static str {
        "rocksdb"
    }
}
