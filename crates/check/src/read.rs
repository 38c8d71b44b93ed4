//! Histories in files: JSON lines, and Jepsen's EDN. `docs/reference/histories.md` describes both.

use crate::atom::Atom;
use crate::history::{Act, History, Outcome, Region, State, Txn};
use crate::versions::SameValue;
use clojure_reader::edn::{self, Edn};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::BufRead;

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// One EDN map after another, in a vector or not.
    Edn,
}

/// Why a history cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// Line of the file, from 1; 0 when it is about the whole file.
    pub line: u64,
    /// One sentence, with the field.
    pub message: String,
    /// How to cure it.
    pub hint: String,
}

fn error(line: u64, message: impl Into<String>, hint: impl Into<String>) -> ReadError {
    ReadError { line, message: message.into(), hint: hint.into() }
}

impl ReadError {
    /// Two writes that reads cannot tell apart.
    pub fn same_value(history: &History, same: SameValue) -> ReadError {
        let value = history.texts.show(same.value);
        let key = history.show_key(same.key);
        let [first, second] = same.lines;
        error(
            second,
            format!("the value {value} is written to key `{key}` again; first in line {first}"),
            "write each value to a key once, or reads do not tell who wrote what they saw",
        )
    }
}

/// Reads a history.
///
/// # Errors
/// At the first line that is no part of a history.
pub fn read(mut input: impl BufRead, format: Option<Format>) -> Result<History, ReadError> {
    let mut reader = Reader { history: History::new(), pending: BTreeMap::new(), moment: 0 };
    let start =
        input.fill_buf().map_err(|e| error(0, format!("cannot read: {e}"), "is it a file?"))?;
    let start = String::from_utf8_lossy(&start[..start.len().min(64)]);
    let is_json = start.trim_start().starts_with("{\"");
    match format.unwrap_or(if is_json { Format::Json } else { Format::Edn }) {
        Format::Json => json(input, &mut reader)?,
        Format::Edn => all_edn(input, &mut reader)?,
    }
    reader.finish()
}

fn json(mut input: impl BufRead, reader: &mut Reader) -> Result<(), ReadError> {
    let mut text = String::new();
    let mut line = 0;
    loop {
        text.clear();
        line += 1;
        let count = input
            .read_line(&mut text)
            .map_err(|e| error(line, format!("cannot read: {e}"), "a history is UTF-8 text"))?;
        if count == 0 {
            return Ok(());
        }
        if text.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(&text).map_err(|e| {
            let hint = "write one JSON object a line; `jq -c '.[]'` takes an array apart";
            error(line, format!("this is no JSON: {e}"), hint)
        })?;
        reader.entry(line, &value)?;
    }
}

fn all_edn(mut input: impl BufRead, reader: &mut Reader) -> Result<(), ReadError> {
    let mut text = String::new();
    input
        .read_to_string(&mut text)
        .map_err(|e| error(0, format!("cannot read: {e}"), "a history is UTF-8 text"))?;
    let hint = "write maps such as {:type :ok, :process 0, :f :txn, :value [[:r 1 nil]]}";
    let blank = |c: char| c.is_whitespace() || c == ',';
    let mut rest = text.trim_matches(blank);
    if let Some(inside) = rest.strip_prefix('[') {
        rest = inside.strip_suffix(']').unwrap_or(inside);
    }
    let (mut line, mut counted) = (1, 0);
    loop {
        rest = rest.trim_start_matches(blank);
        let at = rest.as_ptr() as usize - text.as_ptr() as usize;
        line += text[counted..at].matches('\n').count() as u64;
        counted = at;
        if rest.is_empty() {
            return Ok(());
        }
        let (form, after) = edn::read(rest)
            .map_err(|e| error(line, format!("this is no EDN: {:?}", e.code), hint))?;
        rest = after;
        let value = of_edn(&form, 0)
            .ok_or_else(|| error(line, "this is nested too deeply, or no history", hint))?;
        reader.entry(line, &value)?;
    }
}

/// An EDN value as the JSON one that means the same here.
fn of_edn(form: &Edn<'_>, depth: u32) -> Option<Value> {
    if depth > 16 {
        return None;
    }
    Some(match form {
        Edn::Vector(all) | Edn::List(all) => {
            Value::Array(all.iter().map(|e| of_edn(e, depth + 1)).collect::<Option<_>>()?)
        }
        Edn::Set(all) => {
            Value::Array(all.iter().map(|e| of_edn(e, depth + 1)).collect::<Option<_>>()?)
        }
        Edn::Map(all) => {
            let mut map = Map::new();
            for (key, value) in all {
                let name = match of_edn(key, depth + 1)? {
                    Value::String(name) => name,
                    other => other.to_string(),
                };
                map.insert(name, of_edn(value, depth + 1)?);
            }
            Value::Object(map)
        }
        Edn::Key(name) => Value::String(name.trim_start_matches(':').to_string()),
        Edn::Symbol(text) | Edn::Str(text) => Value::String(text.to_string()),
        Edn::Int(n) => Value::from(*n),
        Edn::Tagged(_, inside) => of_edn(inside, depth + 1)?,
        Edn::Bool(b) => Value::Bool(*b),
        Edn::Nil => Value::Null,
        other => Value::String(other.to_string()),
    })
}

/// A transaction that was asked for and not answered yet.
struct Pending {
    line: u64,
    moment: u64,
    value: Value,
}

struct Reader {
    history: History,
    // By process.
    pending: BTreeMap<Atom, Pending>,
    // The order of events in the file is the order of real time.
    moment: u64,
}

const OPERATIONS: &str = "an operation is [\"r\", KEY, VALUE], [\"w\", KEY, VALUE], \
                          [\"append\", KEY, VALUE] or [\"rw\", KEY, READ, WRITTEN]; \
                          VALUE of a read may be a list";

impl Reader {
    fn entry(&mut self, line: u64, value: &Value) -> Result<(), ReadError> {
        let hint = "a line has `type` (an event), `txn` (a transaction), `applied` or `state` \
                    (a replica), or `quiescent`; see docs/reference/histories.md";
        let Value::Object(map) = value else {
            return Err(error(line, "this is no object", hint));
        };
        if map.contains_key("txn") {
            self.transaction(line, map)
        } else if map.contains_key("type") {
            self.event(line, map)
        } else if map.contains_key("applied") || map.contains_key("state") {
            self.replica(line, map)
        } else if let Some(Value::Bool(quiescent)) = map.get("quiescent") {
            self.history.quiescent = *quiescent;
            Ok(())
        } else {
            let keys: Vec<&str> = map.keys().map(String::as_str).take(8).collect();
            Err(error(line, format!("it is not clear what this is: {}", keys.join(", ")), hint))
        }
    }

    fn atom(&mut self, line: u64, field: &str, value: &Value) -> Result<Atom, ReadError> {
        match value {
            Value::String(text) => Ok(self.history.texts.atom(text)),
            Value::Number(n) => Ok(match n.as_i64() {
                Some(n) => self.history.texts.number(n),
                None => self.history.texts.atom(&n.to_string()),
            }),
            other => Err(error(
                line,
                format!("`{field}` is {}, which names nothing", brief(other)),
                "write a whole number or a text",
            )),
        }
    }

    fn maybe(
        &mut self,
        line: u64,
        field: &str,
        map: &Map<String, Value>,
    ) -> Result<Option<Atom>, ReadError> {
        match map.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => self.atom(line, field, value).map(Some),
        }
    }

    fn event(&mut self, line: u64, map: &Map<String, Value>) -> Result<(), ReadError> {
        self.moment += 1;
        let process = map.get("process").unwrap_or(&Value::Null);
        let process = self.atom(line, "process", process)?;
        let Some(Value::String(kind)) = map.get("type") else {
            let hint = "write invoke, ok, fail or info";
            return Err(error(line, "`type` is no text", hint));
        };
        // Faults and other remarks of a test are no transactions.
        let is_txn = matches!(map.get("value"), Some(Value::Array(_)));
        let value = map.get("value").cloned().unwrap_or(Value::Null);
        let outcome = match kind.as_str() {
            "invoke" => {
                if is_txn {
                    if let Some(open) = self.pending.get(&process) {
                        let shown = self.history.texts.show(process);
                        let message =
                            format!("process {shown} asks again before line {} ended", open.line);
                        return Err(error(line, message, "a process does one thing after another"));
                    }
                    let moment = self.moment;
                    self.pending.insert(process, Pending { line, moment, value });
                }
                return Ok(());
            }
            "ok" => Outcome::Ok,
            "fail" => Outcome::Aborted,
            "info" => Outcome::Unknown,
            other => {
                let message = format!("`type` is `{other}`");
                return Err(error(line, message, "write invoke, ok, fail or info"));
            }
        };
        match self.pending.remove(&process) {
            Some(open) => {
                let value = if outcome == Outcome::Ok { &value } else { &open.value };
                let field = if outcome == Outcome::Ok { line } else { open.line };
                self.add_event(process, &open, field, outcome, value)
            }
            None if outcome == Outcome::Ok && is_txn => {
                let shown = self.history.texts.show(process);
                let message = format!("process {shown} is answered and asked for nothing");
                Err(error(line, message, "write a line with `type` invoke before it"))
            }
            None => Ok(()),
        }
    }

    fn add_event(
        &mut self,
        process: Atom,
        open: &Pending,
        line: u64,
        outcome: Outcome,
        value: &Value,
    ) -> Result<(), ReadError> {
        let name = self.history.texts.atom(&format!("T{}", open.line));
        let completed = if outcome == Outcome::Ok { self.moment } else { u64::MAX };
        let txn = Txn {
            name,
            kind: None,
            client: Some(process),
            region: Region::Unsaid,
            outcome,
            invoked: open.moment,
            completed,
            line: open.line,
        };
        let _ = self.history.begin(txn);
        self.operations(line, "value", value, name)
    }

    fn transaction(&mut self, line: u64, map: &Map<String, Value>) -> Result<(), ReadError> {
        let name = self.atom(line, "txn", &map["txn"])?;
        let outcome = match map.get("outcome").and_then(Value::as_str) {
            None if !map.contains_key("outcome") => Outcome::Ok,
            Some("ok") => Outcome::Ok,
            Some("aborted" | "fail") => Outcome::Aborted,
            Some("unknown" | "info") => Outcome::Unknown,
            _ => {
                let message = format!("`outcome` is {}", brief(&map["outcome"]));
                return Err(error(line, message, "write ok, aborted or unknown"));
            }
        };
        let time = |field: &str| match map.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| {
                let message = format!("`{field}` is {}", brief(value));
                error(line, message, "write whole nanoseconds of one clock for all, from 0")
            }),
        };
        let (invoked, completed) = (time("invoke_ns")?, time("complete_ns")?);
        let (invoked, completed) = match (invoked, completed, outcome) {
            (Some(from), Some(to), _) if to < from => {
                let message = format!("`complete_ns` is {to}, before `invoke_ns` {from}");
                return Err(error(line, message, "both must come from one clock"));
            }
            (Some(from), Some(to), Outcome::Ok) => (from, to),
            (from, ..) => (from.unwrap_or(0), u64::MAX),
        };
        let region = match map.get("regions") {
            Some(Value::Array(all)) if all.len() == 1 => {
                Region::One(self.atom(line, "regions", &all[0])?)
            }
            Some(Value::Array(_)) => Region::Many,
            _ => Region::Unsaid,
        };
        let kind = self.maybe(line, "type", map)?;
        let client = self.maybe(line, "client", map)?;
        let txn = Txn { name, kind, client, region, outcome, invoked, completed, line };
        self.history.begin(txn).map_err(|twice| {
            let shown = self.history.texts.show(name);
            let message =
                format!("`txn` {shown} is there twice; first in line {}", twice.first_line);
            error(line, message, "write one line for each transaction, retries included")
        })?;
        let ops = map.get("ops").unwrap_or(&Value::Null);
        self.operations(line, "ops", ops, name)
    }

    fn operations(
        &mut self,
        line: u64,
        field: &str,
        value: &Value,
        own: Atom,
    ) -> Result<(), ReadError> {
        let Value::Array(all) = value else {
            let message = format!("`{field}` is {}, and no list of operations", brief(value));
            return Err(error(line, message, OPERATIONS));
        };
        for (at, op) in all.iter().enumerate() {
            let field = format!("{field}[{at}]");
            let Value::Array(parts) = op else {
                let message = format!("`{field}` is {}, and no operation", brief(op));
                return Err(error(line, message, OPERATIONS));
            };
            let verb = parts.first().and_then(Value::as_str);
            let most = if verb == Some("rw") { 4 } else { 3 };
            if parts.len() < 2 || parts.len() > most {
                let message = format!("`{field}` has {} parts", parts.len());
                return Err(error(line, message, OPERATIONS));
            }
            let key = self.atom(line, &format!("{field}[1]"), &parts[1])?;
            let key = self.history.key(key);
            let at = |part: usize| format!("{field}[{part}]");
            match verb {
                Some("r") => self.read_op(line, &at(2), key, parts.get(2))?,
                Some("w") => self.write_op(line, &at(2), key, parts.get(2), own)?,
                Some("append") => {
                    let value = self.atom(line, &at(2), parts.get(2).unwrap_or(&Value::Null))?;
                    self.history.op(key, Act::Append(value));
                }
                Some("rw") => {
                    self.read_op(line, &at(2), key, parts.get(2))?;
                    self.write_op(line, &at(3), key, parts.get(3), own)?;
                }
                _ => {
                    let shown = parts.first().map_or_else(String::new, brief);
                    let message = format!("`{field}[0]` is {shown}, which is no operation");
                    return Err(error(line, message, OPERATIONS));
                }
            }
        }
        Ok(())
    }

    fn read_op(
        &mut self,
        line: u64,
        field: &str,
        key: u32,
        value: Option<&Value>,
    ) -> Result<(), ReadError> {
        match value {
            None | Some(Value::Null) => self.history.op(key, Act::Read(None)),
            Some(Value::Array(all)) => {
                let elements: Result<Vec<Atom>, ReadError> =
                    all.iter().map(|one| self.atom(line, field, one)).collect();
                self.history.list(key, &elements?);
            }
            Some(value) => {
                let value = self.atom(line, field, value)?;
                self.history.op(key, Act::Read(Some(value)));
            }
        }
        Ok(())
    }

    /// A write without a value makes a version that has the name of its transaction.
    fn write_op(
        &mut self,
        line: u64,
        field: &str,
        key: u32,
        value: Option<&Value>,
        own: Atom,
    ) -> Result<(), ReadError> {
        let value = match value {
            None => own,
            Some(value) => self.atom(line, field, value)?,
        };
        self.history.op(key, Act::Write(value));
        Ok(())
    }

    fn replica(&mut self, line: u64, map: &Map<String, Value>) -> Result<(), ReadError> {
        let replica = self.atom(line, "replica", map.get("replica").unwrap_or(&Value::Null))?;
        if let Some(digest) = map.get("state") {
            let digest = self.atom(line, "state", digest)?;
            let shard = self.atom(line, "shard", map.get("shard").unwrap_or(&Value::Null))?;
            self.history.states.push(State { replica, shard, digest });
        }
        let Some(applied) = map.get("applied") else { return Ok(()) };
        let hint = "write pairs of a key and the transaction that wrote it, in the replica's order";
        let Value::Array(all) = applied else {
            return Err(error(line, format!("`applied` is {}", brief(applied)), hint));
        };
        for (at, pair) in all.iter().enumerate() {
            let Some([key, writer]) = pair.as_array().map(Vec::as_slice) else {
                return Err(error(line, format!("`applied[{at}]` is {}", brief(pair)), hint));
            };
            let field = format!("applied[{at}]");
            let key = self.atom(line, &field, key)?;
            let writer = self.atom(line, &field, writer)?;
            let key = self.history.key(key);
            self.history.applied(replica, key, writer);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<History, ReadError> {
        // Whoever was never answered may have been served.
        for (process, open) in std::mem::take(&mut self.pending) {
            self.add_event(process, &open, open.line, Outcome::Unknown, &open.value)?;
        }
        if self.history.txns.is_empty() {
            let hint = "see docs/reference/histories.md for what a history is";
            return Err(error(0, "there is no transaction in it", hint));
        }
        Ok(self.history)
    }
}

/// A value as an error quotes it.
fn brief(value: &Value) -> String {
    let text: String = value.to_string().chars().take(40).collect();
    format!("`{text}`")
}
