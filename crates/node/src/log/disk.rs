//! The small layer between the log and files, and its double for tests.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A folder of files that grow at their end. What was appended survives a crash of the machine only
/// after [`Disk::sync`]; before it, any prefix of it may.
pub trait Disk: Send + 'static {
    /// All files, in order of their names.
    ///
    /// # Errors
    /// Those of the system; so for all of these.
    fn names(&self) -> io::Result<Vec<String>>;
    /// A whole file.
    #[allow(missing_docs, clippy::missing_errors_doc)]
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Appends to a file, which is made if there is none.
    #[allow(clippy::missing_errors_doc)]
    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// What was appended to the file, and that it is there, survives a crash.
    #[allow(clippy::missing_errors_doc)]
    fn sync(&mut self, name: &str) -> io::Result<()>;
    /// Cuts a file to `length`, for good.
    #[allow(clippy::missing_errors_doc)]
    fn cut(&mut self, name: &str, length: u64) -> io::Result<()>;
    /// Makes a small file hold `bytes` and nothing else: after a crash, these or the former ones.
    /// With `durably` these, once it has returned.
    #[allow(clippy::missing_errors_doc)]
    fn replace(&mut self, name: &str, bytes: &[u8], durably: bool) -> io::Result<()>;
    /// Removes a file.
    #[allow(clippy::missing_errors_doc)]
    fn remove(&mut self, name: &str) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    open: BTreeMap<String, File>,
    /// Files whose entry in the folder is not synced yet.
    fresh: Vec<String>,
    /// Small files that are written in place.
    marks: BTreeMap<String, File>,
}

impl Folder {
    /// The folder at `path`, made if it is not there.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path) -> io::Result<Folder> {
        fs::create_dir_all(path)?;
        let (open, marks) = (BTreeMap::new(), BTreeMap::new());
        Ok(Folder { path: path.to_path_buf(), open, fresh: Vec::new(), marks })
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl Disk for Folder {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if !self.open.contains_key(name) {
            let path = self.path.join(name);
            if !path.exists() {
                self.fresh.push(name.to_string());
            }
            let file = OpenOptions::new().append(true).create(true).open(path)?;
            self.open.insert(name.to_string(), file);
        }
        match self.open.get_mut(name) {
            Some(file) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        if let Some(file) = self.open.get(name) {
            file.sync_data()?;
        }
        if self.fresh.iter().any(|fresh| fresh == name) {
            self.sync_folder()?;
            self.fresh.retain(|fresh| fresh != name);
        }
        Ok(())
    }

    fn cut(&mut self, name: &str, length: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.path.join(name))?;
        file.set_len(length)?;
        file.sync_all()
    }

    fn replace(&mut self, name: &str, bytes: &[u8], durably: bool) -> io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        if durably {
            let (new, path) = (self.path.join(format!("{name}.new")), self.path.join(name));
            let mut file = File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(new, path)?;
            self.marks.remove(name);
            return self.sync_folder();
        }
        if !self.marks.contains_key(name) {
            let path = self.path.join(name);
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            self.marks.insert(name.to_string(), file);
        }
        match self.marks.get(name) {
            Some(file) => file.write_all_at(bytes, 0),
            None => Ok(()),
        }
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.open.remove(name);
        fs::remove_file(self.path.join(name))
    }
}

/// A disk in memory that can lose what was not synced, flip bits and be full. Clones are one disk.
#[derive(Clone, Debug, Default)]
pub struct Pretended {
    state: std::sync::Arc<parking_lot::Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Contents>,
    /// Bytes that may still be written.
    room: Option<usize>,
    syncs_fail: bool,
    syncs: u64,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    synced: usize,
    /// What a small file held when it was last replaced durably.
    durable: Vec<u8>,
    small: bool,
}

impl Pretended {
    /// An empty one.
    pub fn new() -> Pretended {
        Pretended::default()
    }

    /// The machine loses power: each file keeps what was synced and `kept` bytes of the rest.
    pub fn crash(&self, kept: usize) {
        let mut state = self.state.lock();
        for file in state.files.values_mut() {
            if file.small {
                file.bytes = file.durable.clone();
            } else {
                let length = file.bytes.len().min(file.synced + kept);
                file.bytes.truncate(length);
            }
        }
        state.files.retain(|_, file| !(file.bytes.is_empty() && file.synced == 0));
    }

    /// So many bytes may still be written.
    pub fn leave_room(&self, bytes: Option<usize>) {
        self.state.lock().room = bytes;
    }

    /// Syncs fail from now on, or no longer.
    pub fn fail_syncs(&self, fail: bool) {
        self.state.lock().syncs_fail = fail;
    }

    /// Changes the bytes of a file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(file) = self.state.lock().files.get_mut(name) {
            change(&mut file.bytes);
            file.synced = file.synced.min(file.bytes.len());
        }
    }

    /// Bytes of a file that survive a crash.
    pub fn synced(&self, name: &str) -> usize {
        self.state.lock().files.get(name).map_or(0, |file| file.synced)
    }

    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// A copy that goes its own way.
    pub fn copied(&self) -> Pretended {
        let state = self.state.lock();
        let files = state.files.clone();
        let copy = State { files, room: None, syncs_fail: false, syncs: 0 };
        Pretended { state: std::sync::Arc::new(parking_lot::Mutex::new(copy)) }
    }
}

impl Disk for Pretended {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state.lock().files.keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.state.lock();
        let file = state.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(file.bytes.clone())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let room = state.room.unwrap_or(usize::MAX);
        let fits = bytes.len().min(room);
        state.room = state.room.map(|room| room - fits);
        let file = state.files.entry(name.to_string()).or_default();
        file.bytes.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.syncs_fail {
            return Err(io::Error::other("the disk failed"));
        }
        state.syncs += 1;
        if let Some(file) = state.files.get_mut(name) {
            file.synced = file.bytes.len();
        }
        Ok(())
    }

    fn cut(&mut self, name: &str, length: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        if let Some(file) = state.files.get_mut(name) {
            file.bytes.truncate(length as usize);
            file.synced = file.bytes.len();
        }
        Ok(())
    }

    fn replace(&mut self, name: &str, bytes: &[u8], durably: bool) -> io::Result<()> {
        let mut state = self.state.lock();
        let file = state.files.entry(name.to_string()).or_default();
        file.small = true;
        file.bytes = bytes.to_vec();
        if durably {
            file.durable = bytes.to_vec();
            file.synced = bytes.len();
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.state.lock().files.remove(name);
        Ok(())
    }
}
