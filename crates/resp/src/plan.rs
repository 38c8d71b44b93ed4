//! From commands to one transaction, and from its pieces back to answers.

use crate::command::{Fold, Keys, Spec};
use crate::datum::row;
use crate::engine::{CHECK, COMMAND, PROGRAM, SHARE, VERSIONS, read_answer};
use crate::place::Places;
use crate::reply::Reply;
use cavy_txn::{Access, Key, Outcome, Piece, Response, Shard, Txn, TxnId, Value, Var};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Words of a command.
pub type Words = Vec<Arc<[u8]>>;

/// A key that was watched, and its version then.
pub type Watched = BTreeMap<Vec<u8>, u64>;

/// One command of a transaction.
#[derive(Clone)]
pub enum Ask {
    /// Answered where the client is connected.
    Here(Reply),
    /// On keys.
    Keyed(&'static Spec, Words),
    /// A script with its keys and its words.
    Script {
        /// Its text.
        source: Arc<[u8]>,
        /// Its keys.
        keys: Words,
        /// Its words.
        args: Words,
        /// It may write.
        writes: bool,
    },
}

/// How the answer of a command comes from those of pieces.
enum Slot {
    Here(Reply),
    One(usize),
    Sum(Vec<usize>),
    Done(Vec<usize>),
    /// The place of each key's answer: which piece, and where in its list.
    List(Vec<(usize, usize)>),
}

/// A transaction that is being put together.
pub struct Plan<'a> {
    places: &'a Places,
    pieces: Vec<Piece>,
    slots: Vec<Slot>,
    guards: Vec<Var>,
    vars: u8,
    full: bool,
}

/// What becomes of the answer.
pub struct Assembly {
    slots: Vec<Slot>,
    checks: usize,
}

/// Values that pieces give each other: more shards than this in one transaction are refused.
const VARS: u8 = 250;

fn accesses<'a>(keys: impl Iterator<Item = &'a [u8]>, write: bool) -> Vec<Access> {
    let mut rows: Vec<Key> = keys.map(row).collect();
    rows.sort_unstable();
    rows.dedup();
    rows.into_iter().map(|key| Access { key, write }).collect()
}

impl<'a> Plan<'a> {
    /// An empty one, which is carried out only if nothing that was watched has changed.
    pub fn new(places: &'a Places, watched: &Watched) -> Plan<'a> {
        let (pieces, slots, guards) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = Plan { places, pieces, slots, guards, vars: 0, full: false };
        let mut shards: BTreeMap<Shard, Vec<(&[u8], u64)>> = BTreeMap::new();
        for (key, version) in watched {
            shards.entry(places.shard(key)).or_default().push((key, *version));
        }
        for (shard, keys) in shards {
            let Some(var) = plan.var() else { break };
            let names = accesses(keys.iter().map(|(key, _)| *key), false);
            let args = keys.iter().map(|(_, version)| *version as i64).collect();
            let mut piece = Piece::new(shard, CHECK, args, names);
            piece.bytes = keys.iter().map(|(key, _)| Arc::from(*key)).collect();
            piece.gives.push(var);
            plan.pieces.push(piece);
            plan.guards.push(var);
        }
        plan
    }

    fn var(&mut self) -> Option<Var> {
        if self.vars >= VARS {
            self.full = true;
            return None;
        }
        self.vars += 1;
        Some(Var(self.vars - 1))
    }

    /// Adds a command.
    pub fn add(&mut self, ask: &Ask) {
        let slot = match ask {
            Ask::Here(reply) => Slot::Here(reply.clone()),
            Ask::Keyed(spec, words) => self.keyed(spec, words),
            Ask::Script { source, keys, args, writes } => {
                self.program(Some(source), keys, args, *writes)
            }
        };
        self.slots.push(slot);
    }

    fn command(&mut self, shard: Shard, spec: &Spec, words: Words) -> usize {
        let places = spec.key_places(words.len());
        let keys = accesses(places.iter().map(|place| &*words[*place]), spec.writes);
        let mut piece = Piece::new(shard, COMMAND, Vec::new(), keys);
        piece.bytes = words;
        piece.needs = self.guards.clone();
        self.pieces.push(piece);
        self.pieces.len() - 1
    }

    fn keyed(&mut self, spec: &'static Spec, words: &Words) -> Slot {
        let places = spec.key_places(words.len());
        let mut shards: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for place in places {
            shards.entry(self.places.shard(&words[place])).or_default().push(place);
        }
        if shards.len() == 1
            && let Some(shard) = shards.keys().next()
        {
            return Slot::One(self.command(*shard, spec, words.clone()));
        }
        let pairs = spec.keys == Keys::Pairs;
        if !pairs && !matches!(spec.keys, Keys::Each(_)) {
            // All keys are needed in one place, which there is none: each shard is lent the others.
            let keys: Vec<Arc<[u8]>> =
                shards.values().flatten().map(|place| words[*place].clone()).collect();
            return self.program(None, &keys, words, spec.writes);
        }
        let mut pieces = Vec::new();
        let mut list = vec![(0, 0); words.len() - 1];
        for (shard, keys) in shards {
            let mut part = vec![words[0].clone()];
            for (nth, place) in keys.iter().enumerate() {
                part.push(words[*place].clone());
                if pairs {
                    part.push(words[*place + 1].clone());
                }
                list[*place - 1] = (self.pieces.len(), nth);
            }
            pieces.push(self.command(shard, spec, part));
        }
        match spec.keys {
            Keys::Each(Fold::List) => Slot::List(list),
            Keys::Each(Fold::Sum) => Slot::Sum(pieces),
            _ => Slot::Done(pieces),
        }
    }

    /// A script, or a command whose keys are on several shards: each shard runs the whole of it on
    /// what all of them hold, and writes its own.
    fn program(
        &mut self,
        source: Option<&Arc<[u8]>>,
        keys: &[Arc<[u8]>],
        words: &[Arc<[u8]>],
        writes: bool,
    ) -> Slot {
        let mut shards: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            shards.entry(self.places.shard(key)).or_default().push(place);
        }
        if shards.is_empty() {
            // Of a script without keys, any shard can say what it comes to.
            shards.insert(self.places.shard(b""), Vec::new());
        }
        let mut vars = Vec::new();
        if shards.len() > 1 {
            for (shard, here) in &shards {
                let Some(var) = self.var() else { return Slot::Done(Vec::new()) };
                let names = accesses(here.iter().map(|place| &*keys[*place]), false);
                let mut piece = Piece::new(*shard, SHARE, Vec::new(), names);
                piece.bytes = here.iter().map(|place| keys[*place].clone()).collect();
                piece.gives.push(var);
                self.pieces.push(piece);
                vars.push(var);
            }
        }
        let mut answers = 0;
        for (nth, (shard, here)) in shards.iter().enumerate() {
            let names = accesses(here.iter().map(|place| &*keys[*place]), writes);
            let what = i64::from(source.is_some());
            let mut args = vec![what, i64::from(nth == 0), keys.len() as i64];
            args.extend(here.iter().map(|place| *place as i64));
            let mut piece = Piece::new(*shard, PROGRAM, args, names);
            piece.bytes = source.into_iter().chain(keys).chain(words).cloned().collect();
            piece.needs = self.guards.clone();
            let others = vars.iter().enumerate().filter(|(other, _)| *other != nth);
            piece.needs.extend(others.map(|(_, var)| *var));
            if nth == 0 {
                answers = self.pieces.len();
            }
            self.pieces.push(piece);
        }
        Slot::One(answers)
    }

    /// The keys' rows that it touches, for ordering requests of one connection.
    pub fn rows(&self) -> Vec<Key> {
        self.pieces.iter().flat_map(|piece| &piece.accesses).map(|access| access.key).collect()
    }

    /// The transaction, if there is anything to do elsewhere, and how its answer is read.
    ///
    /// # Errors
    /// When it needs more shards at once than transactions may.
    pub fn finish(self, id: TxnId) -> Result<(Option<Txn>, Assembly), Reply> {
        if self.full {
            return Err(Reply::err(format!("a transaction over more than {VARS} shards")));
        }
        let assembly = Assembly { slots: self.slots, checks: self.guards.len() };
        let txn = (!self.pieces.is_empty()).then(|| Txn::new(id, 0, self.pieces));
        Ok((txn, assembly))
    }
}

/// A transaction that says the versions of keys.
pub fn versions(places: &Places, keys: &[Arc<[u8]>], id: TxnId) -> Txn {
    let mut shards: BTreeMap<Shard, Vec<&Arc<[u8]>>> = BTreeMap::new();
    for key in keys {
        shards.entry(places.shard(key)).or_default().push(key);
    }
    let of = |(shard, keys): (Shard, Vec<&Arc<[u8]>>)| {
        let names = accesses(keys.iter().map(|key| &***key), false);
        let mut piece = Piece::new(shard, VERSIONS, Vec::new(), names);
        piece.bytes = keys.into_iter().cloned().collect();
        piece
    };
    Txn::new(id, 0, shards.into_iter().map(of).collect())
}

/// Reads the answer of [`versions`].
pub fn read_versions(places: &Places, keys: &[Arc<[u8]>], response: &Response) -> Option<Watched> {
    let Outcome::Committed { pieces, .. } = &response.outcome else { return None };
    let mut shards: BTreeMap<Shard, Vec<&Arc<[u8]>>> = BTreeMap::new();
    for key in keys {
        shards.entry(places.shard(key)).or_default().push(key);
    }
    let mut watched = Watched::new();
    for (place, (_, keys)) in shards.into_iter().enumerate() {
        let found = pieces.iter().find(|result| usize::from(result.piece) == place)?;
        let versions = found.result.first()?.ints()?;
        watched.extend(keys.iter().map(|key| key.to_vec()).zip(versions.iter().map(|v| *v as u64)));
    }
    Some(watched)
}

impl Assembly {
    /// The answers of the commands, in order; `None` when what was watched had changed.
    ///
    /// # Errors
    /// When the transaction was not carried out.
    pub fn read(&self, response: &Response) -> Result<Option<Vec<Reply>>, Reply> {
        let pieces = match &response.outcome {
            Outcome::Committed { pieces, .. } => pieces,
            Outcome::Aborted => return Ok(None),
            Outcome::GivenUp { tries } => {
                let text = format!("TRYAGAIN the transaction was given up after {tries} tries");
                return Err(Reply::Error(text));
            }
        };
        let mut results: BTreeMap<usize, &[Value]> = BTreeMap::new();
        for result in pieces {
            results.insert(result.piece.into(), &result.result);
        }
        let held = |check| {
            let value = results.get(&check).and_then(|result| result.first());
            value.and_then(Value::int) == Some(1)
        };
        if !(0..self.checks).all(held) {
            return Ok(None);
        }
        let reply = |place: usize| {
            let found = results.get(&place).and_then(|result| read_answer(result));
            found.unwrap_or_else(|| Reply::err("the answer of a piece is missing"))
        };
        Ok(Some(self.slots.iter().map(|slot| slot.fold(reply)).collect()))
    }

    /// The answers when nothing had to be asked elsewhere.
    pub fn here(&self) -> Vec<Reply> {
        self.slots.iter().map(|slot| slot.fold(|_| Reply::Nil)).collect()
    }
}

impl Slot {
    fn fold(&self, reply: impl Fn(usize) -> Reply) -> Reply {
        match self {
            Slot::Here(here) => here.clone(),
            Slot::One(piece) => reply(*piece),
            Slot::Sum(pieces) => {
                let mut sum = 0;
                for piece in pieces {
                    match reply(*piece) {
                        Reply::Int(number) => sum += number,
                        other => return other,
                    }
                }
                Reply::Int(sum)
            }
            Slot::Done(pieces) => {
                let all = pieces.iter().map(|piece| reply(*piece));
                all.into_iter().find(Reply::is_error).unwrap_or_else(Reply::ok)
            }
            Slot::List(places) => {
                let mut lists: BTreeMap<usize, Vec<Reply>> = BTreeMap::new();
                for (piece, _) in places {
                    if let Reply::Array(items) = reply(*piece) {
                        lists.insert(*piece, items);
                    }
                }
                let item = |(piece, nth): &(usize, usize)| {
                    lists
                        .get(piece)
                        .and_then(|items| items.get(*nth))
                        .cloned()
                        .unwrap_or(Reply::Nil)
                };
                Reply::Array(places.iter().map(item).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::find;
    use crate::datum::Datum;
    use crate::engine::Engine;
    use cavy_txn::store::Store;
    use cavy_txn::{Given, Layout, PieceResult, Ts};

    fn places() -> Places {
        let regions = ["a", "b"].map(str::to_string).to_vec();
        Places { layout: Layout::new(2, 1), regions, default_region: 0 }
    }

    fn words(line: &str) -> Words {
        line.split(' ').map(|word| word.as_bytes().into()).collect()
    }

    fn keyed(line: &str) -> Ask {
        let words = words(line);
        Ask::Keyed(find(&words[0]).unwrap(), words)
    }

    /// Carries out a transaction on the stores of two shards, as replicas would.
    fn carry_out(stores: &mut [Store; 2], txn: &Txn, at: Ts) -> Response {
        let mut given = Given::new();
        let mut results: Vec<Option<PieceResult>> = vec![None; txn.pieces.len()];
        while results.iter().any(Option::is_none) {
            let ready = (0..results.len())
                .find(|place| results[*place].is_none() && given.has_all(&txn.pieces[*place]));
            let place = ready.expect("pieces wait for each other");
            let store = &mut stores[txn.pieces[place].shard.0 as usize];
            let (run, ops) = store.run(&mut Engine::default(), txn, place, &given, at);
            for (var, value) in run.gives {
                given.set(var, value);
            }
            results[place] = Some(PieceResult { piece: place as u16, result: run.result, ops });
        }
        let pieces = results.into_iter().flatten().collect();
        Response { id: txn.id, outcome: Outcome::Committed { at, pieces } }
    }

    struct Talk {
        stores: [Store; 2],
        number: u64,
    }

    impl Talk {
        fn id(&mut self) -> TxnId {
            self.number += 1;
            TxnId { client: 1, number: self.number }
        }

        fn ask(&mut self, asks: &[Ask], watched: &Watched) -> Option<Vec<Reply>> {
            let places = places();
            let mut plan = Plan::new(&places, watched);
            asks.iter().for_each(|ask| plan.add(ask));
            let (txn, assembly) = plan.finish(self.id()).unwrap();
            let at = Ts { t: 1_000_000_000, k: 0, n: 0 };
            let response = carry_out(&mut self.stores, &txn.unwrap(), at);
            assembly.read(&response).unwrap()
        }

        fn line(&mut self, line: &str) -> Reply {
            self.ask(&[keyed(line)], &Watched::new()).unwrap().remove(0)
        }

        fn watch(&mut self, keys: &str) -> Watched {
            let (places, keys) = (places(), words(keys));
            let txn = versions(&places, &keys, self.id());
            let response = carry_out(&mut self.stores, &txn, Ts::ZERO);
            read_versions(&places, &keys, &response).unwrap()
        }
    }

    fn talk() -> Talk {
        Talk { stores: [Store::new(), Store::new()], number: 0 }
    }

    #[test]
    fn commands_on_several_shards_come_together() {
        let mut talk = talk();
        assert_eq!(talk.line("MSET {a}x 1 {b}y 2 {a}z 3"), Reply::ok());
        let all = ["2", "1", "3"].map(Reply::bulk).to_vec();
        assert_eq!(talk.line("MGET {b}y {a}x {a}z"), Reply::Array(all));
        assert_eq!(talk.line("EXISTS {b}y {a}x {a}no"), Reply::Int(2));
        assert_eq!(talk.line("RENAME {a}x {b}new"), Reply::ok());
        assert_eq!(talk.line("GET {b}new"), Reply::bulk("1"));
        assert_eq!(talk.line("GET {a}x"), Reply::Nil);
        assert_eq!(talk.line("MSETNX {a}q 1 {b}y 1"), Reply::Int(0));
        assert_eq!(talk.line("GET {a}q"), Reply::Nil);
        assert_eq!(talk.line("DEL {b}new {a}z {b}y"), Reply::Int(3));
        assert!(talk.stores[1].row(row(b"{a}x")).is_none(), "keys are on their own shard alone");
    }

    #[test]
    fn what_was_watched_decides_on_all_shards() {
        let mut talk = talk();
        talk.line("SET {a}x 1");
        let watched = talk.watch("{a}x {b}y");
        let asks = [keyed("INCR {a}x"), keyed("SET {b}y 5")];
        let done = talk.ask(&asks, &watched);
        assert_eq!(done, Some(vec![Reply::Int(2), Reply::ok()]));
        // One of the two has changed since, on the other shard than the command's.
        assert_eq!(talk.ask(&[keyed("INCR {a}x")], &watched), None);
        assert_eq!(talk.line("GET {a}x"), Reply::bulk("2"));
        // A key that went and came back has changed.
        let watched = talk.watch("{a}x");
        talk.line("DEL {a}x");
        talk.line("SET {a}x 2");
        assert_eq!(talk.ask(&[keyed("INCR {a}x")], &watched), None);
    }

    #[test]
    fn a_script_runs_on_all_its_shards_alike_and_writes_each_key_once() {
        let mut talk = talk();
        talk.line("SET {a}from 10");
        talk.line("SET {b}to 1");
        let source = "local have = tonumber(redis.call('GET', KEYS[1]))
            if have < tonumber(ARGV[1]) then return redis.error_reply('POOR too little') end
            redis.call('DECRBY', KEYS[1], ARGV[1])
            return redis.call('INCRBY', KEYS[2], ARGV[1])";
        let script = |amount: &str| Ask::Script {
            source: source.as_bytes().into(),
            keys: words("{a}from {b}to"),
            args: words(amount),
            writes: true,
        };
        let none = Watched::new();
        assert_eq!(talk.ask(&[script("4")], &none), Some(vec![Reply::Int(5)]));
        let poor = Reply::Error("POOR too little".into());
        assert_eq!(talk.ask(&[script("7")], &none), Some(vec![poor]));
        let both = [Reply::bulk("6"), Reply::bulk("5")].to_vec();
        assert_eq!(talk.line("MGET {a}from {b}to"), Reply::Array(both));
        let here = Ask::Here(Reply::Status("PONG".into()));
        let mixed = talk.ask(&[here.clone(), script("1"), keyed("GET {b}to")], &none);
        let expected = vec![Reply::Status("PONG".into()), Reply::Int(6), Reply::bulk("6")];
        assert_eq!(mixed, Some(expected));
        let datum: Datum =
            crate::datum::read(talk.stores[0].row(row(b"{a}from")).unwrap().value.clone());
        assert_eq!(datum.version, 3);
    }
}
