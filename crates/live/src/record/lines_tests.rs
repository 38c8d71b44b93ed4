//! Disks that are slow, full or broken, and files that are damaged.
#![allow(non_snake_case)]

use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

impl Entry for u32 {
    fn write(&self, line: &mut Vec<u8>, _: u64) {
        let _ = write!(line, "[{self}]");
    }
}

/// A disk that takes what it is given when the test lets it, and no more than `room` bytes.
struct Disk {
    text: Arc<Mutex<Vec<u8>>>,
    gate: Option<Receiver<()>>,
    room: usize,
}

fn disk(gate: Option<Receiver<()>>, room: usize) -> (Disk, Arc<Mutex<Vec<u8>>>) {
    let text = Arc::new(Mutex::new(Vec::new()));
    (Disk { text: text.clone(), gate, room }, text)
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.text.lock().expect("not poisoned");
        // The header is written before the run.
        if let Some(gate) = self.gate.as_ref().filter(|_| !text.is_empty()) {
            // Open for good once the other end is gone.
            let _ = gate.recv();
        }
        if text.len() + bytes.len() > self.room {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn so_far(inputs: u64) -> Summary {
    Summary { inputs, digest: inputs.wrapping_mul(7) }
}

fn record(sink: &mut Sink<u32>, entries: std::ops::Range<u32>) {
    for entry in entries {
        if sink.is_full() {
            sink.flush(so_far(entry.into()));
        }
        sink.push(entry);
    }
}

/// All entries, and the end.
fn read(text: &[u8]) -> Result<(Vec<u64>, Option<End>), ReplayError> {
    let mut lines = Lines::new(text);
    let _: String = lines.header()?;
    let mut all = Vec::new();
    while lines.advance()? {
        if let Some(end) = lines.end(1)? {
            return Ok((all, Some(end)));
        }
        let mut fields = Fields::of(lines.text()).map_err(|what| lines.fault(what))?;
        all.push(fields.number("entry", u64::MAX).map_err(|what| lines.fault(what))?);
    }
    Ok((all, None))
}

#[test]
fn what_is_written_comes_back() {
    let (disk, text) = disk(None, usize::MAX);
    let mut sink = Sink::to(disk, &"header").expect("room");
    record(&mut sink, 0..5_000);
    sink.finish(so_far(5_000)).expect("written");
    let (entries, end) = read(&text.lock().expect("not poisoned")).expect("a recording");
    assert!(entries.into_iter().eq(0..5_000));
    assert_eq!(end, Some(End { summary: so_far(5_000), stopped: None }));
}

#[test]
fn a_disk_that_stands_still_never_holds_up_the_run() {
    let (open, gate): (Sender<()>, _) = channel();
    let (disk, text) = disk(Some(gate), usize::MAX);
    let mut sink = Sink::to(disk, &"header").expect("room");
    let most = (BATCH * BATCHES_MAX) as u32;
    record(&mut sink, 0..most);
    assert!(sink.fault().is_none());
    record(&mut sink, most..3 * most);
    let fault = sink.fault().expect("a million entries wait").to_string();
    assert_eq!(fault, SLOW);
    assert!(sink.kept.capacity() + sink.spare.len() <= BATCH, "and memory is given back");
    drop(open);
    assert!(sink.finish(so_far(3 * u64::from(most))).is_err());
    let (entries, end) = read(&text.lock().expect("not poisoned")).expect("a recording");
    // What had been handed over is there in full, and the last line knows how much that is. Some
    // batches fitted the writer's own buffer.
    let count = entries.len() as u64;
    assert!((most.into()..2 * u64::from(most)).contains(&count), "{count}");
    assert!(entries.into_iter().eq(0..count));
    assert_eq!(end, Some(End { summary: so_far(count), stopped: Some(SLOW.to_string()) }));
}

#[test]
fn a_disk_that_is_full_is_an_error_at_the_end() {
    let (disk, text) = disk(None, 100_000);
    let mut sink = Sink::to(disk, &"header").expect("room");
    record(&mut sink, 0..50_000);
    let error = sink.finish(so_far(50_000)).expect_err("too much");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    // What is there is a recording that was cut off.
    let (entries, end) = read(&text.lock().expect("not poisoned")).expect("a recording");
    assert!(end.is_none() && entries.len() > 5_000);
}

#[test]
fn a_run_that_ends_without_waiting_leaves_a_complete_file() {
    let (disk, text) = disk(None, usize::MAX);
    let mut sink = Sink::to(disk, &"header").expect("room");
    record(&mut sink, 0..10);
    sink.close(so_far(10));
    sink.join().expect("written");
    let (entries, end) = read(&text.lock().expect("not poisoned")).expect("a recording");
    assert_eq!((entries.len(), end.map(|end| end.summary)), (10, Some(so_far(10))));
}

#[test]
fn damage_is_named_and_a_cut_is_none() {
    let mut text = Text::new(Vec::new());
    text.value(&"header").expect("memory");
    for entry in 0..9 {
        text.line(|line, sum| entry_line(entry, line, sum)).expect("memory");
    }
    text.footer(so_far(9), None).expect("memory");
    let whole = text.to.into_inner().expect("memory");
    assert_eq!(read(&whole).expect("a recording").0.len(), 9);
    for cut in 0..whole.len() - 1 {
        match read(&whole[..cut]) {
            Ok((_, end)) => assert!(end.is_none(), "{cut}"),
            // In the header.
            Err(ReplayError::Line { line: 1, .. }) => assert!(cut < 9, "{cut}"),
            Err(error) => panic!("{cut}: {error}"),
        }
    }
    let changed = |from: &str, to: &str| {
        let text = String::from_utf8(whole.clone()).expect("text").replacen(from, to, 1);
        read(text.as_bytes()).expect_err("damaged").to_string()
    };
    assert!(changed("[4]", "[5]").contains("lines 1 to 10 are not those"));
    assert!(changed("[4]\n", "").contains("lines 1 to 9 are not those"));
    assert!(changed("}\n", "}\n[9]\n").contains("something after the last line"));
    assert!(changed("[4]", "[4").contains("line 6 "));
    let long = [b"\"header\"\n[".as_slice(), &vec![b' '; 3 << 20], b"1]\n"].concat();
    assert!(read(&long).expect_err("too long").to_string().contains("longer than 1048576"));
}

fn entry_line(entry: u32, line: &mut Vec<u8>, sum: u64) {
    Entry::write(&entry, line, sum);
}
