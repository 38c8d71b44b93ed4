//! From operations to dependencies: which version each read saw, which write made it, which came
//! next.
//!
//! A key's order of versions is *known* when it is a list that was read whole, or when replicas
//! told in which order they applied its writes. Otherwise only what transactions that read and then
//! wrote the key tell is known: what they read came before what they wrote. Every edge is certain.
//! With known orders a history without cycles can be put in one line, so nothing escapes; without,
//! an anomaly may [dast 5.8].

use crate::anomaly::Class;
use crate::atom::Atom;
use crate::graph::{Draft, Kind};
use crate::history::{Act, History, Op, Outcome};

/// No transaction.
pub const NOBODY: u32 = u32::MAX;

/// Something wrong that is no cycle.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub class: Class,
    /// Who is involved.
    pub txns: Vec<u32>,
    /// The key, if it is about one.
    pub key: Option<u32>,
    /// What happened, as one sentence.
    pub says: String,
}

/// Two operations wrote the same value to one key, so reads do not tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SameValue {
    /// The key, by number.
    pub key: u32,
    /// The value.
    pub value: Atom,
    /// Line of each writer.
    pub lines: [u64; 2],
}

/// A write, and whether its transaction wrote the key again later.
#[derive(Clone, Copy, Debug)]
struct Written {
    key: u32,
    value: Atom,
    txn: u32,
    last: bool,
}

/// What a transaction saw of a key before it wrote it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Seen {
    key: u32,
    txn: u32,
    what: Saw,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Saw {
    Value(Option<Atom>),
    List(u32),
}

/// What a history's operations come to.
#[derive(Debug)]
pub struct Versions<'h> {
    history: &'h History,
    written: Vec<Written>,
    seen: Vec<Seen>,
    /// Everything wrong that is no cycle.
    pub findings: Vec<Finding>,
    /// Keys of which more than one version is there and whose order is not known.
    pub unordered: usize,
    // Whose effects are certain: answered, or seen by somebody.
    committed: Vec<bool>,
}

/// The part of a sorted list that belongs to `key`.
fn of_key<T>(all: &[T], key: u32, key_of: impl Fn(&T) -> u32) -> &[T] {
    let from = all.partition_point(|one| key_of(one) < key);
    let to = from + all[from..].partition_point(|one| key_of(one) == key);
    &all[from..to]
}

fn sorted(mut all: Vec<u32>) -> Vec<u32> {
    all.sort_unstable();
    all.dedup();
    all
}

impl<'h> Versions<'h> {
    /// Reads what `history` has, and adds its dependencies to `draft`.
    ///
    /// # Errors
    /// When two operations wrote the same value to one key.
    pub fn of(history: &'h History, draft: &mut Draft) -> Result<Self, SameValue> {
        let committed = history.txns.iter().map(|txn| txn.outcome == Outcome::Ok).collect();
        let mut versions = Versions {
            history,
            written: Vec::new(),
            seen: Vec::new(),
            findings: Vec::new(),
            unordered: 0,
            committed,
        };
        versions.collect()?;
        versions.commit_what_was_seen();
        for key in 0..history.keys.len() as u32 {
            versions.key(key, draft);
        }
        versions.replicas();
        Ok(versions)
    }

    fn find(&mut self, class: Class, txns: Vec<u32>, key: Option<u32>, says: String) {
        self.findings.push(Finding { class, txns, key, says });
    }

    /// Takes the operations apart: what was written, and what was seen from outside.
    fn collect(&mut self) -> Result<(), SameValue> {
        let history = self.history;
        for txn in 0..history.txns.len() as u32 {
            let ops = history.ops(txn);
            for (at, op) in ops.iter().enumerate() {
                match op.act {
                    Act::Append(value) | Act::Write(value) => {
                        let again = |later: &Op| {
                            later.key == op.key
                                && matches!(later.act, Act::Append(_) | Act::Write(_))
                        };
                        let last = !ops[at + 1..].iter().any(again);
                        self.written.push(Written { key: op.key, value, txn, last });
                    }
                    Act::Read(_) | Act::List(_) => self.read(txn, ops, at),
                    Act::Odd(_) | Act::Unread => {}
                }
                if let Act::Odd(number) = op.act {
                    self.odd_list(txn, op.key, number);
                }
            }
        }
        self.written.sort_unstable_by_key(|w| (w.key, w.value, w.txn, w.last));
        self.seen.sort_unstable();
        for pair in self.written.windows(2) {
            let [a, b] = [pair[0], pair[1]];
            if (a.key, a.value) == (b.key, b.value) && (a.txn != b.txn || self.appends(a)) {
                let line = |txn: u32| history.txns[txn as usize].line;
                let lines = [line(a.txn), line(b.txn)];
                return Err(SameValue { key: a.key, value: a.value, lines });
            }
        }
        Ok(())
    }

    fn appends(&self, written: Written) -> bool {
        let append = Op { key: written.key, act: Act::Append(written.value) };
        self.history.ops(written.txn).contains(&append)
    }

    /// A read: either it must agree with what the transaction did to the key before, or it shows
    /// what others did.
    fn read(&mut self, txn: u32, ops: &[Op], at: usize) {
        let key = ops[at].key;
        let before = ops[..at].iter().rev().find(|op| op.key == key && op.act != Act::Unread);
        let what = match ops[at].act {
            Act::Read(value) => Saw::Value(value),
            Act::List(length) => Saw::List(length),
            _ => return,
        };
        let Some(before) = before else {
            if let Saw::List(length) = what
                && self.own_elements(ops, at, length) > 0
            {
                let says = format!(
                    "{} read an element of `{}` that it appended only later",
                    self.name(txn),
                    self.history.show_key(key)
                );
                self.find(Class::Internal, vec![txn], Some(key), says);
                return;
            }
            self.seen.push(Seen { key, txn, what });
            return;
        };
        let expected = match (what, before.act) {
            (Saw::Value(_), Act::Read(value)) => what == Saw::Value(value),
            (Saw::Value(_), Act::Write(value)) => what == Saw::Value(Some(value)),
            (Saw::List(length), Act::List(earlier)) => length == earlier,
            (Saw::List(length), Act::Read(None)) | (Saw::Value(None), Act::List(length)) => {
                length == 0
            }
            (Saw::List(length), Act::Append(_)) => self.continues(ops, at, length),
            // A list that contradicts others is reported as such; what is read next as well, or not
            // at all.
            (Saw::List(_), Act::Odd(_)) => true,
            // A list and a register under one name.
            _ => false,
        };
        if !expected {
            let says = format!(
                "{} read `{}` as {}, which is not what it had read or written itself before",
                self.name(txn),
                self.history.show_key(key),
                self.show_read(ops[at])
            );
            self.find(Class::Internal, vec![txn], Some(key), says);
        }
    }

    /// How many elements of a read list the transaction appends after the read.
    fn own_elements(&self, ops: &[Op], at: usize, length: u32) -> usize {
        let key = ops[at].key;
        let later = |element: &&Atom| {
            ops[at + 1..].iter().any(|op| op.key == key && op.act == Act::Append(**element))
        };
        let appends =
            ops[at + 1..].iter().any(|op| op.key == key && matches!(op.act, Act::Append(_)));
        if !appends {
            return 0;
        }
        self.history.keys[key as usize].order[..length as usize].iter().filter(later).count()
    }

    /// Does the list read at `at` end with what the transaction appended itself, right behind what
    /// it read of the key before that?
    fn continues(&self, ops: &[Op], at: usize, length: u32) -> bool {
        let key = ops[at].key;
        let list = &self.history.keys[key as usize].order[..length as usize];
        let mut rest = list;
        for op in ops[..at].iter().rev().filter(|op| op.key == key) {
            match op.act {
                Act::Append(value) => match rest.split_last() {
                    Some((last, before)) if *last == value => rest = before,
                    _ => return false,
                },
                Act::List(earlier) => return rest.len() == earlier as usize,
                Act::Read(None) => return rest.is_empty(),
                _ => {}
            }
        }
        true
    }

    fn odd_list(&mut self, txn: u32, key: u32, number: u32) {
        let history = self.history;
        let odd = &history.odd[number as usize].elements;
        let order = &history.keys[key as usize].order;
        let place = odd.iter().zip(order).position(|(a, b)| a != b).unwrap_or(0);
        let says = format!(
            "{} read `{}` with {} as element {}, where others read {}",
            self.name(txn),
            history.show_key(key),
            odd.get(place).map_or_else(String::new, |e| history.texts.show(*e)),
            place + 1,
            order.get(place).map_or_else(String::new, |e| history.texts.show(*e)),
        );
        self.find(Class::IncompatibleOrder, vec![txn], Some(key), says);
    }

    /// Who wrote `value` to `key`, and whether he wrote it again later.
    fn writer(&self, key: u32, value: Atom) -> Option<Written> {
        let at = self.written.binary_search_by_key(&(key, value), |w| (w.key, w.value)).ok()?;
        // One transaction may write one value twice; the last of them counts.
        let later = self.written[at..].iter().take_while(|w| (w.key, w.value) == (key, value));
        later.last().copied()
    }

    /// What was seen of transactions with an unknown outcome took place, and so did all the rest of
    /// them.
    fn commit_what_was_seen(&mut self) {
        let history = self.history;
        let mut certain: Vec<u32> = Vec::new();
        for seen in &self.seen {
            if let Saw::Value(Some(value)) = seen.what {
                certain.extend(self.writer(seen.key, value).map(|w| w.txn));
            }
        }
        for (key, data) in history.keys.iter().enumerate() {
            let of_element = |e: &Atom| self.writer(key as u32, *e).map(|w| w.txn);
            certain.extend(data.order.iter().filter_map(of_element));
            certain.extend(data.log.iter().filter_map(|name| history.named(*name)));
        }
        for txn in certain {
            if history.txns[txn as usize].outcome == Outcome::Unknown {
                self.committed[txn as usize] = true;
            }
        }
    }

    fn key(&mut self, key: u32, draft: &mut Draft) {
        let history = self.history;
        let data = &history.keys[key as usize];
        let seen: Vec<Seen> = of_key(&self.seen, key, |s| s.key).to_vec();
        let lists = !data.order.is_empty() || seen.iter().any(|s| matches!(s.what, Saw::List(_)));
        let mut writers: Vec<u32> = of_key(&self.written, key, |w| w.key)
            .iter()
            .map(|w| w.txn)
            .filter(|txn| self.committed[*txn as usize])
            .collect();
        writers = sorted(writers);
        if lists {
            let order = self.list_order(key, &seen);
            let mut at_version = Vec::with_capacity(seen.len());
            for one in &seen {
                // Nothing at all is an empty list.
                let length = match one.what {
                    Saw::List(length) => length,
                    Saw::Value(None) => 0,
                    Saw::Value(Some(_)) => {
                        self.both_kinds(*one);
                        continue;
                    }
                };
                self.list_read(*one, length, &order);
                at_version.push((length, one.txn));
            }
            self.known_order(key, &order, &writers, at_version, draft);
        } else if !data.log.is_empty() {
            let order = self.logged_order(key);
            let mut places: Vec<(u32, u32)> =
                order.iter().enumerate().map(|(at, txn)| (*txn, at as u32 + 1)).collect();
            places.sort_unstable();
            let mut at_version = Vec::with_capacity(seen.len());
            let mut beyond = Vec::new();
            for one in &seen {
                let Some(from) = self.register_read(*one, draft) else { continue };
                if from == NOBODY {
                    at_version.push((0, one.txn));
                } else if let Ok(at) = places.binary_search_by_key(&from, |place| place.0) {
                    at_version.push((places[at].1, one.txn));
                } else {
                    beyond.push(*one);
                }
            }
            self.known_order(key, &order, &writers, at_version, draft);
            self.partial_order(key, &beyond, &writers, draft);
        } else {
            for one in &seen {
                self.register_read(*one, draft);
            }
            // With two writers somebody must have read between them for their order to be known.
            let registers = of_key(&self.written, key, |w| w.key).first();
            let registers = registers.is_some_and(|written| !self.appends(*written));
            self.unordered += usize::from(writers.len() > 1 && registers);
            self.partial_order(key, &seen, &writers, draft);
        }
    }

    /// Writers of the elements of a list, in its order; `NOBODY` where there is none.
    fn list_order(&mut self, key: u32, seen: &[Seen]) -> Vec<u32> {
        let history = self.history;
        let elements = &history.keys[key as usize].order;
        // The first transaction that read that far.
        let reader = |place: usize| {
            let read = seen.iter().find(|s| matches!(s.what, Saw::List(l) if l as usize > place));
            read.map_or_else(Vec::new, |s| vec![s.txn])
        };
        let mut order = Vec::with_capacity(elements.len());
        for (place, element) in elements.iter().enumerate() {
            let shown = || (history.texts.show(*element), history.show_key(key));
            let Some(written) = self.writer(key, *element) else {
                let (element, name) = shown();
                let says = format!("{element} was read in `{name}`, and nobody appended it");
                self.find(Class::PhantomValue, reader(place), Some(key), says);
                order.push(NOBODY);
                continue;
            };
            if !self.committed[written.txn as usize] {
                let (element, name) = shown();
                let by = self.name(written.txn);
                let says = format!(
                    "{element} was read in `{name}`, and {by}, which appended it, was rolled back"
                );
                let mut txns = reader(place);
                txns.push(written.txn);
                self.find(Class::G1a, txns, Some(key), says);
                order.push(NOBODY);
                continue;
            }
            order.push(written.txn);
        }
        let mut places: Vec<(Atom, usize)> =
            elements.iter().enumerate().map(|(place, element)| (*element, place)).collect();
        places.sort_unstable();
        for pair in places.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let says = format!(
                "{} is in `{}` twice, as elements {} and {}",
                history.texts.show(pair[0].0),
                history.show_key(key),
                pair[0].1 + 1,
                pair[1].1 + 1
            );
            self.find(Class::DuplicateElement, reader(pair[1].1), Some(key), says);
            order[pair[1].1] = NOBODY;
        }
        order
    }

    fn list_read(&mut self, seen: Seen, length: u32, order: &[u32]) {
        let Some(last) = (length as usize).checked_sub(1) else { return };
        let from = order[last];
        if from == NOBODY || from == seen.txn {
            return;
        }
        let element = self.history.keys[seen.key as usize].order[last];
        if self.writer(seen.key, element).is_some_and(|written| !written.last) {
            let says = format!(
                "{} read `{}` up to {}, in the middle of what {} appended",
                self.name(seen.txn),
                self.history.show_key(seen.key),
                self.history.texts.show(element),
                self.name(from)
            );
            self.find(Class::G1b, vec![seen.txn, from], Some(seen.key), says);
        }
    }

    /// A key that is a list for some and one value for others.
    fn both_kinds(&mut self, seen: Seen) {
        let name = self.history.show_key(seen.key);
        let says = format!(
            "{} read `{name}`, which is a list for some and one value for others",
            self.name(seen.txn)
        );
        self.find(Class::Internal, vec![seen.txn], Some(seen.key), says);
    }

    /// Who wrote the value that was read, [`NOBODY`] for the first one, `None` when that tells
    /// nothing. Adds the read as a dependency.
    fn register_read(&mut self, seen: Seen, draft: &mut Draft) -> Option<u32> {
        let history = self.history;
        let Saw::Value(value) = seen.what else {
            self.both_kinds(seen);
            return None;
        };
        let Some(value) = value else { return Some(NOBODY) };
        let read = || {
            let name = history.show_key(seen.key);
            format!("{} read {} from `{name}`", self.name(seen.txn), history.texts.show(value))
        };
        let Some(written) = self.writer(seen.key, value) else {
            let says = format!("{}, and nobody wrote that", read());
            self.find(Class::PhantomValue, vec![seen.txn], Some(seen.key), says);
            return None;
        };
        let by = self.name(written.txn);
        if written.txn == seen.txn {
            let says = format!("{}, which it wrote only later", read());
            self.find(Class::Internal, vec![seen.txn], Some(seen.key), says);
            return None;
        }
        if !self.committed[written.txn as usize] {
            let says = format!("{}, and {by}, which wrote it, was rolled back", read());
            self.find(Class::G1a, vec![seen.txn, written.txn], Some(seen.key), says);
            return None;
        }
        if !written.last {
            let says = format!("{}, which {by} replaced itself", read());
            self.find(Class::G1b, vec![seen.txn, written.txn], Some(seen.key), says);
        }
        draft.edge(written.txn, seen.txn, Kind::Wr, seen.key);
        Some(written.txn)
    }

    /// Writers in the order of the replicas' log; who is not known or twice there is left out.
    fn logged_order(&mut self, key: u32) -> Vec<u32> {
        let history = self.history;
        let mut order = Vec::new();
        for name in &history.keys[key as usize].log {
            if let Some(txn) = history.named(*name)
                && self.committed[txn as usize]
            {
                order.push(txn);
            }
        }
        // Of somebody who is there twice the first counts.
        let mut places: Vec<(u32, usize)> =
            order.iter().enumerate().map(|(at, txn)| (*txn, at)).collect();
        places.sort_unstable();
        for pair in places.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            order[pair[1].1] = NOBODY;
        }
        order.retain(|txn| *txn != NOBODY);
        order
    }

    /// Dependencies of a key whose `order` of writers is known. `reads` are pairs of a version, 0
    /// for what was there first, and who read it.
    fn known_order(
        &mut self,
        key: u32,
        order: &[u32],
        writers: &[u32],
        reads: Vec<(u32, u32)>,
        draft: &mut Draft,
    ) {
        let mut before = NOBODY;
        for writer in order.iter().filter(|writer| **writer != NOBODY) {
            if before != NOBODY {
                draft.edge(before, *writer, Kind::Ww, key);
            }
            before = *writer;
        }
        // What nobody saw comes after all that was seen.
        let mut listed: Vec<u32> = order.to_vec();
        listed = sorted(listed);
        let hidden = self.hidden(key, writers, &listed);
        let real_end = order.iter().rposition(|writer| *writer != NOBODY).map_or(0, |at| at + 1);
        let mut last_readers = Vec::new();
        for (version, reader) in reads {
            let version = version as usize;
            let from = order[..version].iter().rev().find(|writer| **writer != NOBODY);
            if let Some(from) = from {
                draft.edge(*from, reader, Kind::Wr, key);
            }
            if version >= real_end {
                last_readers.push(reader);
            } else {
                let next = order[version..].iter().find(|writer| **writer != NOBODY);
                if let Some(next) = next
                    && from != Some(&reader)
                {
                    draft.edge(reader, *next, Kind::Rw, key);
                }
            }
        }
        if hidden.is_empty() {
            return;
        }
        if before != NOBODY {
            draft.all_before(&[before], &hidden, Kind::Ww, key);
        }
        if !last_readers.is_empty() {
            draft.all_before(&sorted(last_readers), &hidden, Kind::Rw, key);
        }
    }

    /// Who wrote something to `key` that is not in its order.
    fn hidden(&self, key: u32, writers: &[u32], listed: &[u32]) -> Vec<u32> {
        let order = &self.history.keys[key as usize].order;
        if order.is_empty() {
            let unlisted = |txn: &u32| listed.binary_search(txn).is_err();
            return writers.iter().copied().filter(unlisted).collect();
        }
        let mut elements = order.clone();
        elements.sort_unstable();
        let written = of_key(&self.written, key, |w| w.key).iter();
        let unseen = written.filter(|w| {
            self.committed[w.txn as usize] && elements.binary_search(&w.value).is_err()
        });
        sorted(unseen.map(|w| w.txn).collect())
    }

    /// Dependencies of a key of which only that is known that who read a version and then wrote
    /// made a later one.
    fn partial_order(&mut self, key: u32, seen: &[Seen], writers: &[u32], draft: &mut Draft) {
        let mut of_value: Vec<(Option<Atom>, u32)> = seen
            .iter()
            .filter_map(|s| match s.what {
                Saw::Value(value) => Some((value, s.txn)),
                Saw::List(_) => None,
            })
            .collect();
        of_value.sort_unstable();
        let writes = |txn: &u32| writers.binary_search(txn).is_ok();
        for group in of_value.chunk_by(|a, b| a.0 == b.0) {
            let readers = sorted(group.iter().map(|one| one.1).collect());
            match group[0].0 {
                // All writes come after what was there first.
                None => draft.all_before(&readers, writers, Kind::Rw, key),
                Some(value) => {
                    let next: Vec<u32> = readers.iter().copied().filter(writes).collect();
                    let known = self.writer(key, value);
                    if let Some(from) = known.filter(|w| self.committed[w.txn as usize]) {
                        for one in &next {
                            draft.edge(from.txn, *one, Kind::Ww, key);
                        }
                        draft.all_before(&readers, &next, Kind::Rw, key);
                    }
                }
            }
        }
    }

    /// What replicas applied against what was asked for, and against each other [dast 5.8].
    fn replicas(&mut self) {
        let history = self.history;
        for differs in &history.divergences {
            let show = |atom| history.texts.show(atom);
            let says = format!(
                "replica {} applied {} to `{}` as write {}, where others applied {}",
                show(differs.replica),
                show(differs.applied),
                history.show_key(differs.key),
                differs.place + 1,
                show(differs.others)
            );
            let names = [differs.applied, differs.others];
            let txns = names.iter().filter_map(|name| history.named(*name)).collect();
            self.find(Class::ReplicaDivergence, txns, Some(differs.key), says);
        }
        let logs = history.keys.iter().any(|key| !key.log.is_empty());
        for key in 0..history.keys.len() as u32 {
            if logs {
                self.log(key);
            }
        }
        if history.quiescent {
            self.ends();
        }
    }

    fn log(&mut self, key: u32) {
        let history = self.history;
        let log = &history.keys[key as usize].log;
        let mut names: Vec<Atom> = log.clone();
        names.sort_unstable();
        let wrote: Vec<u32> =
            sorted(of_key(&self.written, key, |w| w.key).iter().map(|w| w.txn).collect());
        for group in names.chunk_by(|a, b| a == b) {
            let (name, shown) = (group[0], history.texts.show(group[0]));
            let on = history.show_key(key);
            let txn = history.named(name);
            let known = txn.filter(|txn| wrote.binary_search(txn).is_ok());
            let txns: Vec<u32> = txn.into_iter().collect();
            match known {
                None => {
                    let says =
                        format!("replicas applied {shown} to `{on}`, which did not write it");
                    self.find(Class::PhantomWrite, txns, Some(key), says);
                }
                Some(txn) if history.txns[txn as usize].outcome == Outcome::Aborted => {
                    let says = format!("replicas applied {shown} to `{on}`, which was rolled back");
                    self.find(Class::PhantomWrite, txns, Some(key), says);
                }
                Some(_) if group.len() > 1 => {
                    let says = format!("replicas applied {shown} to `{on}` {} times", group.len());
                    self.find(Class::DuplicateWrite, txns, Some(key), says);
                }
                Some(_) => {}
            }
        }
        if !history.quiescent {
            return;
        }
        for txn in wrote {
            let Some(of) = history.txns.get(txn as usize) else { continue };
            if of.outcome == Outcome::Ok && names.binary_search(&of.name).is_err() {
                let says = format!(
                    "{} was answered, and no replica has what it wrote to `{}`",
                    self.name(txn),
                    history.show_key(key)
                );
                self.find(Class::LostWrite, vec![txn], Some(key), says);
            }
        }
    }

    /// At the end of a quiet run replicas have applied the same, and hold the same.
    fn ends(&mut self) {
        let history = self.history;
        for cursor in &history.cursors {
            let length = history.keys[cursor.key as usize].log.len();
            if (cursor.applied as usize) < length && !cursor.astray {
                let says = format!(
                    "replica {} applied {} writes to `{}`, others {length}",
                    history.texts.show(cursor.replica),
                    cursor.applied,
                    history.show_key(cursor.key)
                );
                self.find(Class::StateDivergence, Vec::new(), Some(cursor.key), says);
            }
        }
        let mut states = history.states.clone();
        states.sort_by_key(|state| (state.shard, state.digest, state.replica));
        for shard in states.chunk_by(|a, b| a.shard == b.shard) {
            let (first, last) = (shard[0], shard[shard.len() - 1]);
            if first.digest != last.digest {
                let show = |atom| history.texts.show(atom);
                let says = format!(
                    "replicas {} and {} of shard {} differ at the end",
                    show(first.replica),
                    show(last.replica),
                    show(first.shard)
                );
                self.find(Class::StateDivergence, Vec::new(), None, says);
            }
        }
    }

    fn name(&self, txn: u32) -> String {
        self.history.texts.show(self.history.txns[txn as usize].name)
    }

    fn show_read(&self, op: Op) -> String {
        show_read(self.history, op)
    }
}

/// What a read saw, as a reader of the report sees it.
pub fn show_read(history: &History, op: Op) -> String {
    match op.act {
        Act::Read(None) => "nothing".to_string(),
        Act::Read(Some(value)) => history.texts.show(value),
        Act::List(length) => {
            let order = &history.keys[op.key as usize].order;
            show_list(history, &order[..length as usize])
        }
        Act::Odd(number) => show_list(history, &history.odd[number as usize].elements),
        Act::Append(value) | Act::Write(value) => history.texts.show(value),
        Act::Unread => "something".to_string(),
    }
}

/// A list, its middle left out when it is long.
fn show_list(history: &History, list: &[Atom]) -> String {
    let show =
        |part: &[Atom]| part.iter().map(|e| history.texts.show(*e)).collect::<Vec<_>>().join(" ");
    match list.len() {
        0..=8 => format!("[{}]", show(list)),
        length => {
            format!("[{} … {}] ({length} elements)", show(&list[..2]), show(&list[length - 4..]))
        }
    }
}
