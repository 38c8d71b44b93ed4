//! The embedded store and its three operations `[persephone 4.1, 7.4]`.
//!
//! The paper's server keeps 5000 tiny keys in RocksDB; GET seeks one key, SCAN goes over all of
//! them. redb does the same here, and RocksDB behind a feature.

use redb::{
    Database, Durability, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
};
use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError, RwLock};

/// Keys that a new store has, `key0` to `key4999` `[persephone 4.1]`.
pub const KEYS: u32 = 5_000;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1_024;

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

    /// Why the last write failed for the library's sake, until one succeeds.
    fn fault(&self) -> Option<String> {
        None
    }

    /// After a fault, tries whether the store can be written again.
    fn try_again(&self) {}
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
    file: PathBuf,
    /// `None` when it could not be opened again after a fault.
    database: RwLock<Option<Database>>,
    durability: Durability,
    fault: Mutex<Option<Fault>>,
}

/// A write that failed.
#[derive(Clone)]
struct Fault {
    reason: String,
    /// Bytes of its value: shorter ones may still find room, and prove nothing.
    bytes: usize,
}

fn library(error: impl std::fmt::Display) -> StoreError {
    StoreError::Library(error.to_string())
}

thread_local! {
    /// This thread is looking at a file that may be damaged.
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// Does `work` on a file that somebody may have damaged. The library's code panics at some damage,
/// where it takes for granted what it wrote itself; here that is an error like any other.
fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !LOOKING.get() {
                before(info);
            }
        }));
    });
    LOOKING.set(true);
    // What a panic leaves behind is dropped: the caller opens the file anew or not at all.
    let done = std::panic::catch_unwind(AssertUnwindSafe(work));
    LOOKING.set(false);
    done.unwrap_or_else(|_| Err(StoreError::Library("the file is damaged".to_string())))
}

/// Files up to this length are looked at as a whole before they are served.
const CHECKED_BYTES_MAX: u64 = 1 << 30;

#[cfg_attr(feature = "rocksdb", allow(dead_code))]
impl Redb {
    fn open(file: &Path, durable: bool) -> Result<Redb, StoreError> {
        let durability = if durable { Durability::Immediate } else { Durability::None };
        let database = guarded(|| {
            let length = std::fs::metadata(file).map_or(0, |there| there.len());
            let mut database = Database::create(file).map_err(library)?;
            if (1..=CHECKED_BYTES_MAX).contains(&length) {
                let whole = database.check_integrity().map_err(library)?;
                if !whole {
                    return Err(library("the file is damaged, and was not mended whole"));
                }
            }
            Ok(database)
        })?;
        let store = Redb {
            file: file.to_path_buf(),
            database: RwLock::new(Some(database)),
            durability,
            fault: Mutex::new(None),
        };
        // A table that nobody wrote to is not there for readers.
        store.write(0, &|_| Ok(()))?;
        Ok(store)
    }

    fn fill(&self, keys: u32) -> Result<(), StoreError> {
        self.write(0, &|table| {
            for number in 0..keys {
                let key = format!("key{number}");
                table.insert(key.as_bytes(), VALUE).map_err(library)?;
            }
            Ok(())
        })
    }

    /// One transaction that writes a value of so many bytes. After a fault of the file the database
    /// refuses everything, so it is opened anew before the next one.
    fn write(&self, bytes: usize, change: Change<'_>) -> Result<(), StoreError> {
        let opened = if self.fault().is_some() { self.open_again() } else { Ok(()) };
        let done = opened.and_then(|()| self.write_once(change));
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match &done {
            Err(StoreError::Library(reason)) => {
                let bytes = fault.as_ref().map_or(bytes, |fault| fault.bytes.max(bytes));
                *fault = Some(Fault { reason: reason.clone(), bytes });
            }
            Ok(()) if fault.as_ref().is_some_and(|fault| bytes >= fault.bytes) => *fault = None,
            Ok(()) | Err(StoreError::Full) => {}
        }
        done
    }

    fn write_once(&self, change: Change<'_>) -> Result<(), StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or_else(|| library(CLOSED))?;
        guarded(|| {
            let mut write = database.begin_write().map_err(library)?;
            write.set_durability(self.durability).map_err(library)?;
            change(&mut write.open_table(TABLE).map_err(library)?)?;
            write.commit().map_err(library)
        })
    }

    fn open_again(&self) -> Result<(), StoreError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // Its lock on the file must be gone before it can be opened.
        *database = None;
        *database = Some(guarded(|| Database::open(&self.file).map_err(library))?);
        Ok(())
    }

    fn read<T>(&self, look: impl FnOnce(&Pairs) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or_else(|| library(CLOSED))?;
        guarded(|| {
            let read = database.begin_read().map_err(library)?;
            look(&read.open_table(TABLE).map_err(library)?)
        })
    }
}

/// Why there is no database.
const CLOSED: &str = "the store could not be opened again after a fault";

/// What a transaction does.
type Change<'a> =
    &'a dyn Fn(&mut redb::Table<'_, &'static [u8], &'static [u8]>) -> Result<(), StoreError>;

/// What a reader sees.
type Pairs = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

impl Store for Redb {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|table| {
            let found = table.get(key).map_err(library)?;
            Ok(found.map(|value| value.value().to_vec()))
        })
    }

    fn set(&self, key: &[u8], value: &[u8], keys_max: u64) -> Result<(), StoreError> {
        self.write(value.len(), &|table| {
            let full = table.len().map_err(library)? >= keys_max;
            if full && table.get(key).map_err(library)?.is_none() {
                return Err(StoreError::Full);
            }
            table.insert(key, value).map_err(library)?;
            Ok(())
        })
    }

    fn scan(&self, visit: Visit<'_>) -> Result<(), StoreError> {
        self.read(|table| {
            for pair in table.iter().map_err(library)? {
                let (key, value) = pair.map_err(library)?;
                if !visit(key.value(), value.value()) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.read(|table| table.len().map_err(library))
    }

    fn fault(&self) -> Option<String> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.as_ref().map(|fault| fault.reason.clone())
    }

    fn try_again(&self) {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(Fault { bytes, .. }) = fault else { return };
        let value = vec![0; bytes];
        // What failed, under a key that is longer than any client's, and nothing that stays. The
        // outcome is kept as the fault, or as none.
        let _ = self.write(bytes, &|table| {
            let key = &[0u8; KEY_BYTES_MAX + 1][..];
            table.insert(key, &value[..]).map_err(library)?;
            table.remove(key).map_err(library)?;
            Ok(())
        });
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
    fn a_damaged_store_is_an_error_and_never_a_panic() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("store");
        drop(open(&file, true).expect("a new store"));
        let whole = std::fs::read(&file).expect("the file");
        let (mut refused, mut opened) = (0, 0);
        let places = (0..20).map(|n| n * whole.len() / 20 + n % 7);
        for (place, length) in places.flat_map(|place| [(place, 1), (place, 512)]) {
            let mut bytes = whole.clone();
            let end = (place + length).min(bytes.len());
            bytes[place..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
            std::fs::write(&file, &bytes).expect("a damaged file");
            match open(&file, true) {
                Err(StoreError::Library(_)) => refused += 1,
                Err(StoreError::Full) => panic!("a damaged file is not full"),
                // What was damaged is not part of the store: all of it is there.
                Ok(store) => {
                    opened += 1;
                    assert_eq!(store.len(), Ok(5_000), "byte {place}");
                    assert_eq!(store.get(b"key4999"), Ok(Some(b"value".to_vec())));
                    let mut all = 0;
                    assert_eq!(
                        store.scan(&mut |_, _| {
                            all += 1;
                            true
                        }),
                        Ok(())
                    );
                    assert_eq!(all, 5_000, "byte {place}");
                }
            }
        }
        assert!(refused >= 3 && opened >= 3, "{refused} refused, {opened} opened");
        for length in [0, 1, 4_096, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&file, &whole[..length]).expect("a short file");
            // An empty file is a new store; the others are none.
            assert_eq!(open(&file, true).is_ok(), length == 0, "{length} bytes");
        }
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
