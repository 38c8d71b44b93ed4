//! The thread that appends and syncs.

use super::{Disk, Durable, Opened, Segment, header, mark_stored, put, segment_name};
use crate::figures::Figures;
use cavy_core::Span;
use cavy_core::family::Node;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

/// A group is written when it is so long, even while more comes.
const GROUP_BYTES: usize = 64 << 10;
/// How long a full disk is left alone.
const FULL: Duration = Duration::from_millis(50);
/// A segment that is wholly trimmed is closed when it is so long.
const TRIMMED_BYTES: u64 = 1 << 20;

pub(crate) struct WriterOptions {
    pub node: Node,
    pub format: u32,
    pub durable: Durable,
    pub segment_bytes: u64,
    /// How long a group may wait for more.
    pub gather: Span,
}

#[derive(Default)]
struct Queue {
    records: Vec<(u64, Vec<u8>)>,
    bytes: usize,
    trim: u64,
    stop: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

/// Told how far the log is stored, or that it has failed.
pub(crate) type Told = Box<dyn Fn(Result<u64, String>) + Send>;

pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub fn start<D: Disk>(
        disk: D,
        opened: &Opened,
        options: WriterOptions,
        figures: Arc<Figures>,
        told: Told,
    ) -> io::Result<Writer> {
        let shared = Arc::new(Shared { queue: Mutex::default(), more: Condvar::new() });
        let segments = opened.segments.clone();
        let mut work = Work { disk, segments, options, figures, shared: Arc::clone(&shared), told };
        let thread =
            std::thread::Builder::new().name("cavy-log".to_string()).spawn(move || work.run())?;
        Ok(Writer { shared, thread: Some(thread) })
    }

    /// Appends records, numbered without gaps.
    pub fn append(&self, records: impl IntoIterator<Item = (u64, Vec<u8>)>) {
        let mut queue = self.shared.queue.lock();
        for (entry, bytes) in records {
            queue.bytes += bytes.len();
            queue.records.push((entry, bytes));
        }
        self.shared.more.notify_one();
    }

    pub fn trim(&self, upto: u64) {
        let mut queue = self.shared.queue.lock();
        queue.trim = queue.trim.max(upto);
        self.shared.more.notify_one();
    }

    /// Writes what is left, and ends.
    pub fn finish(mut self) {
        self.shared.queue.lock().stop = true;
        self.shared.more.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work<D> {
    disk: D,
    segments: Vec<Segment>,
    options: WriterOptions,
    figures: Arc<Figures>,
    shared: Arc<Shared>,
    told: Told,
}

impl<D: Disk> Work<D> {
    fn run(&mut self) {
        loop {
            let (records, trim, stop) = self.next();
            if let Some((last, _)) = records.last() {
                let last = *last;
                match self.store(&records, last) {
                    Ok(true) => (self.told)(Ok(last)),
                    Ok(false) => return,
                    Err(error) => return (self.told)(Err(error.to_string())),
                }
            }
            if trim > 0
                && let Err(error) = self.trim(trim)
            {
                return (self.told)(Err(error.to_string()));
            }
            if stop {
                return;
            }
        }
    }

    /// A group, once there is one.
    fn next(&self) -> (Vec<(u64, Vec<u8>)>, u64, bool) {
        let mut queue = self.shared.queue.lock();
        while queue.records.is_empty() && queue.trim == 0 && !queue.stop {
            self.shared.more.wait(&mut queue);
        }
        let gather = Duration::from_nanos(self.options.gather.as_ns());
        if !gather.is_zero() && !queue.records.is_empty() {
            let deadline = cavy_clock::now() + self.options.gather;
            while queue.bytes < GROUP_BYTES && !queue.stop {
                let left = deadline.since(cavy_clock::now()).as_ns();
                if left == 0 {
                    break;
                }
                self.shared.more.wait_for(&mut queue, Duration::from_nanos(left));
            }
        }
        queue.bytes = 0;
        (std::mem::take(&mut queue.records), std::mem::take(&mut queue.trim), queue.stop)
    }

    /// False when the node ends while the disk is full.
    fn store(&mut self, records: &[(u64, Vec<u8>)], last: u64) -> io::Result<bool> {
        let first = records.first().map_or(last, |(entry, _)| *entry);
        let mut bytes = Vec::new();
        let open = self.segments.last().filter(|open| open.bytes < self.options.segment_bytes);
        let begun = match open {
            Some(open) => open.clone(),
            None => {
                bytes = header(self.options.node, self.options.format, first);
                let name = segment_name(first);
                let begun = Segment { name, first, last: first - 1, bytes: 0 };
                self.segments.push(begun.clone());
                begun
            }
        };
        for (entry, record) in records {
            put(&mut bytes, *entry, record);
        }
        while let Err(error) = self.disk.append(&begun.name, &bytes) {
            if error.kind() != io::ErrorKind::StorageFull {
                return Err(error);
            }
            self.figures.disk_full.fetch_add(1, Relaxed);
            self.disk.cut(&begun.name, begun.bytes)?;
            std::thread::sleep(FULL);
            if self.shared.queue.lock().stop {
                return Ok(false);
            }
        }
        if let Some(open) = self.segments.last_mut() {
            (open.last, open.bytes) = (last, open.bytes + bytes.len() as u64);
        }
        self.figures.log_records.fetch_add(records.len() as u64, Relaxed);
        self.figures.log_bytes.fetch_add(bytes.len() as u64, Relaxed);
        if self.options.durable == Durable::On {
            let began = cavy_clock::now();
            self.disk.sync(&begun.name)?;
            self.figures.sync.note(cavy_clock::now().since(began));
            mark_stored(&mut self.disk, last)?;
        }
        Ok(true)
    }

    fn trim(&mut self, upto: u64) -> io::Result<()> {
        // The last record stays: by it the numbering goes on.
        while self.segments.len() > 1 && self.segments[0].last <= upto {
            let gone = self.segments.remove(0);
            self.disk.remove(&gone.name)?;
        }
        if let [only] = &mut self.segments[..]
            && only.last <= upto
            && only.bytes > TRIMMED_BYTES
        {
            // The next record begins a segment, after which this one can go.
            only.bytes = only.bytes.max(self.options.segment_bytes);
        }
        Ok(())
    }
}
