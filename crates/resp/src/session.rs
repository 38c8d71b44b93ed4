//! The state of one client, and what each of its requests asks for.

use crate::command::{self, Spec};
use crate::front::Shared;
use crate::native;
use crate::plan::{Ask, Assembly, Plan, Watched, Words, versions};
use crate::reply::{Reply, Version};
use crate::script;
use cavy_txn::{Key, Ts, Txn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a request asks for.
pub(crate) enum Act {
    /// Nothing that is elsewhere.
    Reply(Reply),
    /// The same, and the end of the connection.
    Last(Reply),
    /// A transaction.
    Ask { txn: Txn, then: Then, rows: Vec<Key> },
}

/// What becomes of the answer.
pub(crate) enum Then {
    /// It is that of one command.
    One(Assembly),
    /// It is that of EXEC.
    Exec(Assembly),
    /// It is that of a transaction without commands.
    Native,
    /// It says the versions of keys that are to be watched.
    Watch(Words),
}

struct Multi {
    asks: Vec<Ask>,
    many: usize,
    bytes: usize,
    /// Something that was queued was wrong.
    wrong: bool,
}

pub(crate) struct Session {
    pub id: u64,
    pub version: Version,
    pub watched: Watched,
    authenticated: bool,
    name: Vec<u8>,
    multi: Option<Multi>,
    /// The greatest timestamp of an answer on this connection.
    seen: Ts,
    /// Everything asked here is ordered after this.
    after: Ts,
}

/// A causal token as text.
fn token(ts: Ts) -> String {
    format!("{}.{}.{}", ts.t, ts.k, ts.n)
}

fn read_token(text: &str) -> Option<Ts> {
    let mut parts = text.split('.');
    let mut next = || parts.next();
    let ts = Ts { t: next()?.parse().ok()?, k: next()?.parse().ok()?, n: next()?.parse().ok()? };
    parts.next().is_none().then_some(ts)
}

/// A token that is further ahead of this node's clock is none: whoever waits for it waits in vain.
const TOKEN_AHEAD_NS: u64 = 30_000_000_000;

fn word(words: &[Vec<u8>], place: usize) -> String {
    let text = String::from_utf8_lossy(words.get(place).map_or(&[][..], Vec::as_slice));
    text.to_ascii_uppercase()
}

fn wrong_number(name: &str) -> Reply {
    let name = name.to_ascii_lowercase();
    Reply::err(format!("wrong number of arguments for '{name}' command"))
}

fn shared_words(words: &[Vec<u8>]) -> Words {
    words.iter().map(|word| Arc::from(word.as_slice())).collect()
}

impl Session {
    pub fn new(id: u64, shared: &Shared) -> Session {
        Session {
            id,
            version: Version::Two,
            watched: Watched::new(),
            authenticated: shared.password.is_none(),
            name: Vec::new(),
            multi: None,
            seen: Ts::ZERO,
            after: Ts::ZERO,
        }
    }

    /// An answer of this timestamp goes to the client.
    pub fn saw(&mut self, at: Ts) {
        self.seen = self.seen.max(at);
    }

    pub fn act(&mut self, words: &[Vec<u8>], shared: &Shared) -> Act {
        let mut act = self.decide(words, shared);
        if let Act::Ask { txn, .. } = &mut act {
            txn.after = self.after;
        }
        act
    }

    /// `CAVY TOKEN` says what this connection has seen, `CAVY AFTER token` has all that follows
    /// ordered after it, on whatever node `[dast 8.2.8]`.
    fn causal(&mut self, words: &[Vec<u8>], shared: &Shared) -> Reply {
        let Some(text) = words.get(2) else {
            return Reply::bulk(token(self.seen.max(self.after)));
        };
        match std::str::from_utf8(text).ok().and_then(read_token) {
            None => {
                Reply::err("a token is what CAVY TOKEN says: three numbers with points between")
            }
            Some(ts) if ts.t > shared.wall.now().as_ns().saturating_add(TOKEN_AHEAD_NS) => {
                Reply::err("the token is more than 30 s ahead of this node's clock")
            }
            Some(ts) => {
                self.after = self.after.max(ts);
                Reply::ok()
            }
        }
    }

    fn decide(&mut self, words: &[Vec<u8>], shared: &Shared) -> Act {
        let name = word(words, 0);
        if !self.authenticated && !matches!(name.as_str(), "AUTH" | "HELLO" | "QUIT" | "RESET") {
            return Act::Reply(Reply::Error("NOAUTH Authentication required.".into()));
        }
        match (name.as_str(), words.len()) {
            ("MULTI", 1) => self.multi(),
            ("EXEC", 1) => self.exec(shared),
            ("DISCARD", 1) => match self.multi.take() {
                None => Act::Reply(Reply::err("DISCARD without MULTI")),
                Some(_) => {
                    self.watched.clear();
                    Act::Reply(Reply::ok())
                }
            },
            ("WATCH", _) if self.multi.is_some() => {
                Act::Reply(Reply::err("WATCH inside MULTI is not allowed"))
            }
            ("WATCH", 2..) => {
                let keys = shared_words(&words[1..]);
                let txn = versions(&shared.places, &keys, shared.next_id());
                Act::Ask { txn, then: Then::Watch(keys), rows: Vec::new() }
            }
            ("UNWATCH", 1) => {
                self.watched.clear();
                Act::Reply(Reply::ok())
            }
            ("CAVY", 2 | 3)
                if self.multi.is_none()
                    && word(words, 1) == if words.len() == 2 { "TOKEN" } else { "AFTER" } =>
            {
                Act::Reply(self.causal(words, shared))
            }
            ("FCALL", _) if self.multi.is_some() => {
                self.spoil();
                Act::Reply(Reply::err("FCALL is a transaction and cannot be part of one"))
            }
            ("FCALL", _) => match native::ask(words, &shared.places.layout, shared.next_id()) {
                Err(error) => Act::Reply(error),
                Ok(txn) => {
                    let all = txn.pieces.iter().flat_map(|piece| &piece.accesses);
                    let rows = all.map(|access| access.key).collect();
                    Act::Ask { txn, then: Then::Native, rows }
                }
            },
            ("QUIT", _) => Act::Last(Reply::ok()),
            ("RESET", 1) => {
                *self = Session::new(self.id, shared);
                Act::Reply(Reply::Status("RESET".into()))
            }
            ("AUTH", 2..=3) => Act::Reply(self.authenticate(words, shared)),
            ("HELLO", _) => Act::Reply(self.hello(words, shared)),
            ("MULTI" | "EXEC" | "DISCARD" | "WATCH" | "UNWATCH" | "AUTH", _) => {
                self.spoil();
                Act::Reply(wrong_number(&name))
            }
            _ => self.command(&name, words, shared),
        }
    }

    fn spoil(&mut self) {
        if let Some(multi) = &mut self.multi {
            multi.wrong = true;
        }
    }

    fn multi(&mut self) -> Act {
        if self.multi.is_some() {
            return Act::Reply(Reply::err("MULTI calls can not be nested"));
        }
        self.multi = Some(Multi { asks: Vec::new(), many: 0, bytes: 0, wrong: false });
        Act::Reply(Reply::ok())
    }

    fn command(&mut self, name: &str, words: &[Vec<u8>], shared: &Shared) -> Act {
        let ask = match self.ask(name, words, shared) {
            Ok(ask) => ask,
            Err(error) => {
                self.spoil();
                return Act::Reply(error);
            }
        };
        if let Some(multi) = &mut self.multi {
            multi.bytes += words.iter().map(|word| word.len() + 64).sum::<usize>();
            multi.many += 1;
            if multi.many > shared.multi_commands || multi.bytes > shared.multi_bytes {
                multi.wrong = true;
                // What was queued is not needed any more, and more may come.
                multi.asks.clear();
                let text = format!(
                    "a transaction has at most {} commands and {} bytes",
                    shared.multi_commands, shared.multi_bytes
                );
                return Act::Reply(Reply::err(text));
            }
            multi.asks.push(ask);
            return Act::Reply(Reply::Status("QUEUED".into()));
        }
        if let Ask::Here(reply) = ask {
            return Act::Reply(reply);
        }
        let none = Watched::new();
        let mut plan = Plan::new(&shared.places, &none);
        plan.add(&ask);
        let rows = plan.rows();
        match plan.finish(shared.next_id()) {
            Err(error) => Act::Reply(error),
            Ok((None, assembly)) => Act::Reply(assembly.here().pop().unwrap_or(Reply::Nil)),
            Ok((Some(txn), assembly)) => Act::Ask { txn, then: Then::One(assembly), rows },
        }
    }

    fn exec(&mut self, shared: &Shared) -> Act {
        let Some(multi) = self.multi.take() else {
            return Act::Reply(Reply::err("EXEC without MULTI"));
        };
        let watched = std::mem::take(&mut self.watched);
        if multi.wrong {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return Act::Reply(Reply::Error(text.into()));
        }
        let mut plan = Plan::new(&shared.places, &watched);
        multi.asks.iter().for_each(|ask| plan.add(ask));
        let rows = plan.rows();
        match plan.finish(shared.next_id()) {
            Err(error) => Act::Reply(error),
            Ok((None, assembly)) => Act::Reply(Reply::Array(assembly.here())),
            Ok((Some(txn), assembly)) => Act::Ask { txn, then: Then::Exec(assembly), rows },
        }
    }

    /// What a command asks for, outside of transactions and inside.
    fn ask(&self, name: &str, words: &[Vec<u8>], shared: &Shared) -> Result<Ask, Reply> {
        let spec: Option<&'static Spec> = command::find(name.as_bytes());
        if let Some(spec) = spec {
            spec.check(words)?;
            return Ok(Ask::Keyed(spec, shared_words(words)));
        }
        match name {
            "EVAL" | "EVAL_RO" | "EVALSHA" | "EVALSHA_RO" => self.script(name, words, shared),
            _ => self.here(name, words, shared).map(Ask::Here),
        }
    }

    fn script(&self, name: &str, words: &[Vec<u8>], shared: &Shared) -> Result<Ask, Reply> {
        if words.len() < 3 {
            return Err(wrong_number(name));
        }
        let source: Arc<[u8]> = if name.starts_with("EVALSHA") {
            let sha = word(words, 1).to_ascii_lowercase();
            let scripts = shared.scripts.lock();
            let no_script = || Reply::Error("NOSCRIPT No matching script. Please use EVAL.".into());
            scripts.get(&sha).cloned().ok_or_else(no_script)?
        } else {
            let source: Arc<[u8]> = words[1].as_slice().into();
            shared.keep_script(&source);
            source
        };
        let many: Option<usize> = word(words, 2).parse().ok();
        let Some(many) = many else {
            return Err(Reply::err("value is not an integer or out of range"));
        };
        if many > words.len() - 3 {
            return Err(Reply::err("Number of keys can't be greater than number of args"));
        }
        let (keys, args) = words[3..].split_at(many);
        let (keys, args) = (shared_words(keys), shared_words(args));
        Ok(Ask::Script { source, keys, args, writes: !name.ends_with("_RO") })
    }

    /// Commands that need no key.
    fn here(&self, name: &str, words: &[Vec<u8>], shared: &Shared) -> Result<Reply, Reply> {
        let second = word(words, 1);
        Ok(match (name, words.len()) {
            ("PING", 1) => Reply::Status("PONG".into()),
            ("PING" | "ECHO", 2) => Reply::bulk(&words[1]),
            ("SELECT", 2) if words[1] == b"0" => Reply::ok(),
            ("SELECT", 2) => return Err(Reply::err("DB index is out of range")),
            ("CLIENT", 2..) => match second.as_str() {
                "ID" => Reply::Int(self.id as i64),
                "GETNAME" if self.name.is_empty() => Reply::Nil,
                "GETNAME" => Reply::bulk(&self.name),
                "LIST" | "INFO" => Reply::bulk(format!("id={} db=0\n", self.id)),
                "SETNAME" | "SETINFO" | "NO-EVICT" | "NO-TOUCH" | "REPLY" | "CACHING" => {
                    Reply::ok()
                }
                other => return Err(Reply::err(format!("unknown subcommand '{other}'"))),
            },
            ("CONFIG", 3..) if second == "GET" => {
                let known = [("save", ""), ("appendonly", "yes"), ("maxmemory", "0")];
                let asked: Vec<String> = (2..words.len()).map(|n| word(words, n)).collect();
                let pairs =
                    known.iter().filter(|(key, _)| asked.contains(&key.to_ascii_uppercase()));
                Reply::Map(
                    pairs.map(|(key, value)| (Reply::bulk(key), Reply::bulk(value))).collect(),
                )
            }
            ("CONFIG", _) => {
                return Err(Reply::err("the configuration is a file; see `cavy live txn`"));
            }
            ("COMMAND", 1) => Reply::Array(command::COMMANDS.iter().map(described).collect()),
            ("COMMAND", 2) if second == "COUNT" => Reply::Int(command::COMMANDS.len() as i64),
            ("COMMAND", 2..) if second == "INFO" => {
                let info = |word: &Vec<u8>| command::find(word).map_or(Reply::NilArray, described);
                Reply::Array(words[2..].iter().map(info).collect())
            }
            ("COMMAND", 2..) => Reply::Map(Vec::new()),
            ("INFO", _) => Reply::bulk((shared.info)()),
            ("TIME", 1) => {
                let ns = shared.wall.now().as_ns();
                let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000 / 1_000);
                let parts = [seconds, rest].map(|part| Reply::bulk(part.to_string()));
                Reply::Array(parts.to_vec())
            }
            ("SCRIPT", 3) if second == "LOAD" => {
                shared.keep_script(&words[2].as_slice().into());
                Reply::bulk(script::name(&words[2]))
            }
            ("SCRIPT", 3..) if second == "EXISTS" => {
                let scripts = shared.scripts.lock();
                let known = |n| scripts.contains_key(&word(words, n).to_ascii_lowercase());
                Reply::Array((2..words.len()).map(|n| Reply::Int(known(n).into())).collect())
            }
            ("SCRIPT", 2..) if second == "FLUSH" => {
                shared.scripts.lock().clear();
                Reply::ok()
            }
            ("FUNCTION", 2..) if second == "LIST" => native::list(),
            ("CAVY", 2..) => return (shared.admin)(&words[1..]),
            (
                "PING" | "ECHO" | "SELECT" | "CLIENT" | "TIME" | "SCRIPT" | "FUNCTION" | "CAVY",
                _,
            ) => {
                return Err(wrong_number(name));
            }
            _ => {
                let shown: String = name.chars().take(64).collect();
                return Err(Reply::err(format!(
                    "unknown command '{}'",
                    shown.to_ascii_lowercase()
                )));
            }
        })
    }

    fn authenticate(&mut self, words: &[Vec<u8>], shared: &Shared) -> Reply {
        let Some(password) = &shared.password else {
            return Reply::err("AUTH <password> called without any password configured");
        };
        let user = words.len() == 2 || words[1] == b"default";
        let said = &words[words.len() - 1];
        // Hashes of equal length are compared, so that time says nothing about the password.
        let same = ring::digest::digest(&ring::digest::SHA256, said).as_ref()
            == ring::digest::digest(&ring::digest::SHA256, password.as_bytes()).as_ref();
        if user && same {
            self.authenticated = true;
            return Reply::ok();
        }
        Reply::Error("WRONGPASS invalid username-password pair or user is disabled.".into())
    }

    fn hello(&mut self, words: &[Vec<u8>], shared: &Shared) -> Reply {
        let version = match words.get(1).map(Vec::as_slice) {
            None => self.version,
            Some(b"2") => Version::Two,
            Some(b"3") => Version::Three,
            Some(_) => return Reply::Error("NOPROTO unsupported protocol version".into()),
        };
        let mut rest = words.get(2..).unwrap_or_default();
        while let [option, after @ ..] = rest {
            if option.eq_ignore_ascii_case(b"AUTH") && after.len() >= 2 {
                let said = ["AUTH".into(), after[0].clone(), after[1].clone()];
                let reply = self.authenticate(&said, shared);
                if reply.is_error() {
                    return reply;
                }
                rest = &after[2..];
            } else if option.eq_ignore_ascii_case(b"SETNAME") && !after.is_empty() {
                self.name.clone_from(&after[0]);
                rest = &after[1..];
            } else {
                return Reply::err("syntax error in HELLO option");
            }
        }
        if !self.authenticated {
            return Reply::Error(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                 HELLO <proto> AUTH <user> <pass> option can be used"
                    .into(),
            );
        }
        self.version = version;
        let number = if version == Version::Three { 3 } else { 2 };
        let pairs = [
            ("server", Reply::bulk("cavy")),
            ("version", Reply::bulk("7.0.0")),
            ("proto", Reply::Int(number)),
            ("id", Reply::Int(self.id as i64)),
            ("mode", Reply::bulk("standalone")),
            ("role", Reply::bulk("master")),
            ("modules", Reply::Array(Vec::new())),
        ];
        Reply::Map(pairs.map(|(name, value)| (Reply::bulk(name), value)).to_vec())
    }
}

/// A command as COMMAND tells it.
fn described(spec: &Spec) -> Reply {
    let flags = [if spec.writes { "write" } else { "readonly" }];
    let flags = flags.map(|flag| Reply::Status(flag.into())).to_vec();
    let (first, last, step) = match spec.keys {
        command::Keys::One => (1, 1, 1),
        command::Keys::Two => (1, 2, 1),
        command::Keys::Each(_) | command::Keys::All => (1, -1, 1),
        command::Keys::Pairs | command::Keys::PairsTogether => (1, -1, 2),
    };
    Reply::Array(vec![
        Reply::bulk(spec.name.to_ascii_lowercase()),
        Reply::Int(spec.arity.into()),
        Reply::Set(flags),
        Reply::Int(first),
        Reply::Int(last),
        Reply::Int(step),
    ])
}

/// Scripts by name.
pub(crate) type Scripts = BTreeMap<String, Arc<[u8]>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_were_written() {
        let ts = Ts { t: 1_700_000_000_000_000_000, k: 7, n: 12 };
        assert_eq!(read_token(&token(ts)), Some(ts));
        for wrong in ["", "1", "1.2", "1.2.3.4", "1.2.x", "-1.2.3", "1.2.99999999999"] {
            assert_eq!(read_token(wrong), None, "{wrong}");
        }
    }
}
