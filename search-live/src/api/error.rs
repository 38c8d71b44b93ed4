//! Errors in Elasticsearch's words, status and shape.

use serde_json::{Map, Value, json};

/// An error that a client sees.
#[derive(Clone, PartialEq, Debug)]
pub struct Error {
    /// Of HTTP.
    pub status: u16,
    /// Its name, such as `parsing_exception`.
    pub kind: &'static str,
    /// A sentence.
    pub reason: String,
    /// More fields, such as `index`.
    pub more: Map<String, Value>,
    /// What it came from.
    pub caused_by: Option<Box<Error>>,
    /// Elasticsearch finds it where documents are, and not where requests are read: the index, once
    /// that is known. Such errors come in a shape of their own.
    shard: Option<String>,
}

impl Error {
    /// An error of a kind.
    pub fn new(status: u16, kind: &'static str, reason: impl Into<String>) -> Error {
        Error {
            status,
            kind,
            reason: reason.into(),
            more: Map::new(),
            caused_by: None,
            shard: None,
        }
    }

    /// A sentence and nothing else, as for a path that is not served.
    pub fn plain(status: u16, reason: impl Into<String>) -> Error {
        Error::new(status, "", reason)
    }

    /// `action_request_validation_exception`, for one thing that is wrong.
    pub fn invalid(what: &str) -> Error {
        let reason = format!("Validation Failed: 1: {what};");
        Error::new(400, "action_request_validation_exception", reason)
    }

    /// Why servers, or a front end that puts together what they found, have no answer.
    pub fn of_finding(reason: String) -> Error {
        match reason.starts_with("Trying to create too many buckets") {
            true => Error::new(400, "too_many_buckets_exception", reason),
            false => Error::new(500, "search_phase_execution_exception", reason),
        }
    }

    /// A text that is no number.
    pub fn no_number(text: &str) -> Error {
        Error::new(400, "number_format_exception", format!("For input string: \"{text}\""))
    }

    /// A field of an object that has another value than it may.
    pub fn field(of: &str, field: &str, cause: Error) -> Error {
        let reason = format!("[{of}] failed to parse field [{field}]");
        Error::new(400, "x_content_parse_exception", reason).because(cause)
    }

    /// A key of a body, or a key with such a value, that is not served.
    pub fn key(name: &str, value: &Value) -> Error {
        Error::parsing(format!("Unknown key for a {} in [{name}].", token(value)))
    }

    /// A word that is none of those that are known, by the name of the class that lists them.
    pub fn constant(class: &str, word: &str) -> Error {
        let word = word.to_uppercase();
        Error::argument(format!("No enum constant org.elasticsearch.{class}.{word}"))
    }

    /// Found where documents are.
    pub fn at_shard(mut self) -> Error {
        self.shard = Some(String::new());
        self
    }

    /// Found in an index of that name and uuid.
    pub fn of_index(mut self, name: &str, uuid: &Value) -> Error {
        if self.shard.is_some() {
            self.shard = Some(name.to_owned());
            if self.kind == "query_shard_exception" {
                return self.with("index", name).with("index_uuid", uuid.clone());
            }
        }
        self
    }

    /// With another field.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Error {
        self.more.insert(name.into(), value.into());
        self
    }

    /// With what it came from.
    pub fn because(mut self, cause: Error) -> Error {
        self.caused_by = Some(Box::new(cause));
        self
    }

    /// `parsing_exception`.
    pub fn parsing(reason: impl Into<String>) -> Error {
        Error::new(400, "parsing_exception", reason).with("line", 1).with("col", 1)
    }

    /// `illegal_argument_exception`.
    pub fn argument(reason: impl Into<String>) -> Error {
        Error::new(400, "illegal_argument_exception", reason)
    }

    /// `index_not_found_exception`.
    pub fn no_index(index: &str) -> Error {
        Error::new(404, "index_not_found_exception", format!("no such index [{index}]"))
            .with("resource.type", "index_or_alias")
            .with("resource.id", index)
            .with("index_uuid", "_na_")
            .with("index", index)
    }

    /// Of an index that a request for one document names.
    pub fn of_expression(mut self) -> Error {
        if let Some(kind) = self.more.get_mut("resource.type") {
            *kind = json!("index_expression");
        }
        self
    }

    /// Whether the words of a request are wrong, and not what they mean.
    pub fn is_unread(&self) -> bool {
        matches!(self.kind, "parsing_exception" | "x_content_parse_exception")
    }

    /// `x_content_parse_exception`, for a body that is no JSON.
    pub fn json(error: &serde_json::Error) -> Error {
        let (line, column) = (error.line(), error.column());
        Error::new(400, "x_content_parse_exception", format!("[{line}:{column}] {error}"))
    }

    /// The cluster cannot do that now.
    pub fn unavailable(reason: impl Into<String>) -> Error {
        Error::new(503, "cluster_block_exception", reason)
    }

    fn inner(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("type".into(), json!(self.kind));
        map.insert("reason".into(), json!(self.reason));
        map.extend(self.more.clone());
        if let Some(cause) = &self.caused_by {
            map.insert("caused_by".into(), Value::Object(cause.inner()));
        }
        map
    }

    /// Of an item of a bulk, or a search of several.
    pub fn item(&self) -> Value {
        Value::Object(self.inner())
    }

    /// Of a whole answer.
    pub fn body(&self) -> Value {
        if self.kind.is_empty() {
            return match self.status {
                400 => json!({ "error": self.reason }),
                status => json!({ "error": self.reason, "status": status }),
            };
        }
        let inner = self.inner();
        let same = self.caused_by.as_ref().filter(|cause| cause.kind == self.kind);
        let mut root = same.map_or_else(|| inner.clone(), |cause| cause.inner());
        root.remove("caused_by");
        let mut all = Map::new();
        all.insert("root_cause".into(), json!([root]));
        match &self.shard {
            None => all.extend(inner),
            Some(index) => all.extend(self.of_shards(index, inner)),
        }
        json!({ "error": all, "status": self.status })
    }

    /// What all shards say, though there are none here.
    fn of_shards(&self, index: &str, inner: Map<String, Value>) -> Map<String, Value> {
        let told = match index {
            "" => json!({ "shard": -1, "index": null, "reason": inner }),
            index => json!({ "shard": 0, "index": index, "node": "cavy", "reason": inner }),
        };
        let mut map = Map::new();
        map.insert("type".into(), json!("search_phase_execution_exception"));
        map.insert("reason".into(), json!("all shards failed"));
        map.insert("phase".into(), json!("query"));
        map.insert("grouped".into(), json!(true));
        map.insert("failed_shards".into(), json!([told]));
        match self.kind {
            "search_context_missing_exception" => {
                drop(map.insert("caused_by".into(), json!(inner)))
            }
            "illegal_argument_exception" => {
                let twice = json!({ "type": self.kind, "reason": self.reason, "caused_by": inner });
                map.insert("caused_by".into(), twice);
            }
            _ => {}
        }
        map
    }
}

/// What a parser of JSON calls the beginning of a value.
pub fn token(value: &Value) -> &'static str {
    match value {
        Value::Null => "VALUE_NULL",
        Value::Bool(_) => "VALUE_BOOLEAN",
        Value::Number(_) => "VALUE_NUMBER",
        Value::String(_) => "VALUE_STRING",
        Value::Array(_) => "START_ARRAY",
        Value::Object(_) => "START_OBJECT",
    }
}

/// How far two words are apart: letters changed, left out or put in.
fn apart(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], at + 1);
        for (place, own) in other.iter().enumerate() {
            let changed = before + usize::from(letter != *own);
            before = row[place + 1];
            row[place + 1] = changed.min(before + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

/// What may have been meant by a name: known names of which less than half is different.
pub fn meant(name: &str, known: &[&str]) -> String {
    let mut near: Vec<(f64, &str)> = known
        .iter()
        .map(|known| {
            let longest = name.chars().count().max(known.chars().count()).max(1);
            (apart(name, known) as f64 / longest as f64, *known)
        })
        .filter(|(share, _)| *share < 0.5)
        .collect();
    near.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(other.1)));
    let names: Vec<&str> = near.into_iter().map(|(_, known)| known).collect();
    match &names[..] {
        [] => String::new(),
        [one] => format!(" did you mean [{one}]?"),
        many => format!(" did you mean any of [{}]?", many.join(", ")),
    }
}
