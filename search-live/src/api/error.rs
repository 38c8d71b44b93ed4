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
}

impl Error {
    /// An error of a kind.
    pub fn new(status: u16, kind: &'static str, reason: impl Into<String>) -> Error {
        Error { status, kind, reason: reason.into(), more: Map::new(), caused_by: None }
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
        let mut outer = self.inner();
        let mut root = Map::new();
        outer.iter().filter(|(name, _)| *name != "caused_by").for_each(|(name, value)| {
            root.insert(name.clone(), value.clone());
        });
        let mut all = Map::new();
        all.insert("root_cause".into(), json!([root]));
        all.append(&mut outer);
        json!({ "error": all, "status": self.status })
    }
}
