use super::*;
use crate::figures::Figures;
use cavy_core::Span;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const NODE: Node = Node(3);

fn writer(disk: &Pretended, segment_bytes: u64) -> (Writer, Receiver<Result<u64, String>>, Opened) {
    let opened = open(&mut disk.clone(), NODE, 1).expect("the log opens");
    let options = WriterOptions {
        node: NODE,
        format: 1,
        durable: Durable::On,
        segment_bytes,
        gather: Span::ZERO,
    };
    let (tell, told) = channel();
    let told_by = Box::new(move |stored| drop(tell.send(stored)));
    let figures = Arc::new(Figures::default());
    let writer = Writer::start(disk.clone(), &opened, options, figures, told_by).unwrap();
    (writer, told, opened)
}

fn text(entry: u64) -> Vec<u8> {
    format!("record {entry} {}", "x".repeat(entry as usize % 7)).into_bytes()
}

/// A disk with records 1 to `last`, each of them synced.
fn written(last: u64, segment_bytes: u64) -> Pretended {
    let disk = Pretended::new();
    let (writer, told, _) = writer(&disk, segment_bytes);
    for entry in 1..=last {
        writer.append([(entry, text(entry))]);
        assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(Ok(entry)));
    }
    writer.finish();
    disk
}

fn last_segment(disk: &Pretended) -> String {
    disk.names().unwrap().into_iter().rfind(|name| name.ends_with(".log")).unwrap()
}

#[test]
fn what_was_stored_is_read_back_over_segments_and_lives() {
    let disk = written(40, 200);
    assert!(disk.names().unwrap().len() > 5, "several segments");
    disk.crash(0);
    let opened = open(&mut disk.clone(), NODE, 1).unwrap();
    assert_eq!((opened.life, opened.torn), (2, false));
    let expected: Vec<_> = (1..=40).map(|entry| (Entry(entry), text(entry))).collect();
    assert_eq!(opened.records, expected);
    assert_eq!(open(&mut disk.clone(), NODE, 1).unwrap().life, 3);
}

#[test]
fn a_group_is_synced_once() {
    let disk = Pretended::new();
    let (writer, told, _) = writer(&disk, 1 << 20);
    writer.append((1..=100).map(|entry| (entry, text(entry))));
    assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(Ok(100)));
    assert_eq!(disk.syncs(), 1);
    writer.finish();
}

#[test]
fn a_torn_tail_is_cut_at_every_byte_and_nothing_stored_goes() {
    let disk = written(5, 1 << 20);
    let name = last_segment(&disk);
    let stored = disk.synced(&name);
    // Two records more that reach the disk only in part.
    let mut tail = Vec::new();
    put(&mut tail, 6, &text(6));
    let sixth = tail.len();
    put(&mut tail, 7, &text(7));
    for kept in 0..=tail.len() {
        let mut torn = disk.copied();
        torn.append(&name, &tail).unwrap();
        torn.crash(kept);
        let opened = open(&mut torn, NODE, 1).unwrap();
        let whole = 5 + usize::from(kept >= sixth) + usize::from(kept >= tail.len());
        assert_eq!(opened.records.len(), whole, "{kept} bytes");
        assert_eq!(opened.torn, ![0, sixth, tail.len()].contains(&kept), "{kept} bytes");
        // Cut for good: the next start finds nothing torn.
        assert!(!open(&mut torn, NODE, 1).unwrap().torn);
        assert!(torn.synced(&name) >= stored);
    }
}

#[test]
fn a_flipped_bit_anywhere_in_what_was_stored_stops_the_node() {
    let disk = written(6, 150);
    for name in disk.names().unwrap().iter().filter(|name| name.ends_with(".log")) {
        let length = disk.read(name).unwrap().len();
        for bit in 0..length * 8 {
            let flipped = disk.copied();
            flipped.edit(name, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let found = open(&mut flipped.clone(), NODE, 1);
            assert!(found.is_err(), "{name} bit {bit}");
        }
    }
    let flipped = disk.copied();
    let name = last_segment(&disk);
    flipped.edit(&name, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let error = open(&mut flipped.clone(), NODE, 1).err().expect("it is found");
    assert!(matches!(error, LogError::Damaged { entry: Entry(6), .. }), "{error}");
    assert!(error.to_string().starts_with("record 6 of the log is damaged: "), "{error}");
}

#[test]
fn missing_segments_and_ends_are_missed() {
    let disk = written(12, 100);
    let names: Vec<_> = disk.names().unwrap().into_iter().filter(|n| n.ends_with(".log")).collect();
    for name in &names[1..] {
        let mut gone = disk.copied();
        gone.remove(name).unwrap();
        let error = open(&mut gone, NODE, 1).err().expect("it is missed");
        assert!(matches!(error, LogError::Missing { .. }), "{name}: {error}");
    }
    // Without the mark, the end of the log cannot be told from what never was.
    let mut blind = disk.copied();
    blind.remove("stored").unwrap();
    blind.remove(&names[names.len() - 1]).unwrap();
    assert!(open(&mut blind, NODE, 1).is_ok());
}

#[test]
fn foreign_older_and_newer_logs_are_refused_by_name() {
    let disk = written(2, 1 << 20);
    let name = last_segment(&disk);
    let refused = |disk: &Pretended, node, format| {
        open(&mut disk.clone(), node, format).err().expect("refused").to_string()
    };
    assert!(refused(&disk, Node(4), 1).ends_with("it belongs to node 3, and this is node 4"));
    let words = "its records have format 1, and this program writes 2";
    assert!(refused(&disk, NODE, 2).ends_with(words));
    for (version, told) in [(0, "it has version 0"), (2, "it has version 2")] {
        let other = disk.copied();
        other.edit(&name, |bytes| bytes[8] = version);
        assert!(refused(&other, NODE, 1).contains(told));
    }
    let other = disk.copied();
    other.edit(&name, |bytes| bytes[..8].copy_from_slice(b"somebody"));
    assert!(refused(&other, NODE, 1).ends_with("it begins with something else"));
}

#[test]
fn a_full_disk_is_waited_for_and_tells_nothing_meanwhile() {
    let disk = written(3, 1 << 20);
    let (writer, told, opened) = writer(&disk, 1 << 20);
    assert_eq!(opened.records.len(), 3);
    disk.leave_room(Some(9));
    writer.append([(4, text(4))]);
    assert!(told.recv_timeout(Duration::from_millis(120)).is_err(), "nothing is stored");
    disk.leave_room(None);
    assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(Ok(4)));
    writer.finish();
    disk.crash(0);
    assert_eq!(open(&mut disk.clone(), NODE, 1).unwrap().records.len(), 4);
}

#[test]
fn a_sync_that_fails_ends_the_log() {
    let disk = written(1, 1 << 20);
    let (writer, told, _) = writer(&disk, 1 << 20);
    disk.fail_syncs(true);
    writer.append([(2, text(2))]);
    let failed = told.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(failed, Err("the disk failed".to_string()));
    writer.finish();
}

#[test]
fn trimming_removes_segments_and_never_the_numbering() {
    let disk = written(40, 200);
    let before = disk.names().unwrap().len();
    let (writer, told, _) = writer(&disk, 200);
    writer.trim(40);
    writer.append([(41, text(41))]);
    assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(Ok(41)));
    writer.trim(40);
    writer.finish();
    assert!(disk.names().unwrap().len() < before / 2);
    let opened = open(&mut disk.clone(), NODE, 1).unwrap();
    assert_eq!(opened.records.last().map(|(entry, _)| *entry), Some(Entry(41)));
}

#[test]
fn a_folder_is_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Folder::open(&folder.path().join("log")).unwrap();
    disk.append("a", b"one").unwrap();
    disk.append("a", b"two").unwrap();
    disk.sync("a").unwrap();
    disk.cut("a", 4).unwrap();
    disk.append("a", b"!").unwrap();
    assert_eq!(disk.read("a").unwrap(), b"onet!");
    for durably in [true, false, true] {
        disk.replace("b", b"12", durably).unwrap();
    }
    assert_eq!(disk.names().unwrap(), ["a", "b"]);
    disk.remove("a").unwrap();
    assert_eq!(
        (disk.names().unwrap(), disk.read("b").unwrap()),
        (vec!["b".into()], b"12".to_vec())
    );
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_is_in_a_segment_opening_it_ends(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            headed in any::<bool>(),
        ) {
            let mut disk = Pretended::new();
            let mut file = if headed { header(NODE, 1, 1) } else { Vec::new() };
            file.extend(bytes);
            disk.append(&segment_name(1), &file).unwrap();
            let _ = open(&mut disk, NODE, 1);
        }
    }
}
