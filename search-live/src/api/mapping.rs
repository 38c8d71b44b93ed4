//! Fields of an index: what they are, which come by themselves, and what a document's values are.

use super::error::Error;
use crate::date;
use crate::engine::entry::{Kind, Typed};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Fields of an index at most, as in Elasticsearch.
pub const FIELDS: usize = 1_000;
/// Objects within objects at most.
const DEPTH: usize = 20;
/// Longer keywords are not indexed, as in Lucene.
const KEYWORD_BYTES: usize = 32_766;

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Words.
    Text,
    /// One string.
    Keyword,
    /// Whole numbers, from the least to the greatest.
    Whole(i64, i64),
    /// Floating-point numbers.
    Float,
    /// True or false.
    Boolean,
    /// Milliseconds since 1970.
    Date,
}

impl Type {
    fn read(name: &str) -> Option<Type> {
        Some(match name {
            "text" | "match_only_text" => Type::Text,
            "keyword" | "ip" | "constant_keyword" | "wildcard" => Type::Keyword,
            "long" => Type::Whole(i64::MIN, i64::MAX),
            "integer" => Type::Whole(i32::MIN.into(), i32::MAX.into()),
            "short" => Type::Whole(i16::MIN.into(), i16::MAX.into()),
            "byte" => Type::Whole(i8::MIN.into(), i8::MAX.into()),
            "double" | "float" | "half_float" | "scaled_float" => Type::Float,
            "boolean" => Type::Boolean,
            "date" => Type::Date,
            _ => return None,
        })
    }

    /// What the index keeps for it.
    pub fn kind(self) -> Kind {
        match self {
            Type::Text => Kind::Text,
            Type::Keyword => Kind::Keyword,
            Type::Whole(..) | Type::Boolean | Type::Date => Kind::Long,
            Type::Float => Kind::Double,
        }
    }

    /// As mappings name it.
    pub fn name(self) -> &'static str {
        match self {
            Type::Text => "text",
            Type::Keyword => "keyword",
            Type::Whole(_, i64::MAX) => "long",
            Type::Whole(_, most) if most == i64::from(i32::MAX) => "integer",
            Type::Whole(_, most) if most == i64::from(i16::MAX) => "short",
            Type::Whole(..) => "byte",
            Type::Float => "float",
            Type::Boolean => "boolean",
            Type::Date => "date",
        }
    }

    /// A value of this type.
    pub fn value(self, value: &Value) -> Option<Typed> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            _ => return None,
        };
        Some(match self {
            Type::Text => Typed::Text(text),
            Type::Keyword => Typed::Keyword(text),
            Type::Whole(least, most) => {
                if value.is_boolean() {
                    return None;
                }
                let whole = text.parse::<i64>().ok();
                // 3.7 becomes 3, as in Elasticsearch.
                let cut =
                    || text.parse::<f64>().ok().filter(|v| v.abs() < 9.3e18).map(|v| v as i64);
                Typed::Long(whole.or_else(cut).filter(|v| (least..=most).contains(v))?)
            }
            Type::Float => {
                if value.is_boolean() {
                    return None;
                }
                Typed::Double(text.parse::<f64>().ok().filter(|v| v.is_finite())?)
            }
            Type::Boolean => match text.as_str() {
                "true" => Typed::Long(1),
                "false" | "" => Typed::Long(0),
                _ => return None,
            },
            Type::Date => Typed::Long(date::read(&text)?),
        })
    }
}

/// What becomes of fields that the mapping does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dynamic {
    Add,
    Ignore,
    Strict,
}

/// A field.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Its type.
    pub of: Type,
    /// Values are taken from here: of `title.keyword` from `title`.
    from: String,
    /// Longer strings are not indexed.
    ignore_above: usize,
    indexed: bool,
}

/// The indexed values of a document, by the path of their field.
pub type Values = Vec<(String, Typed)>;

/// The fields of an index.
#[derive(Clone, Debug)]
pub struct Mapping {
    tree: Value,
    fields: BTreeMap<String, Field>,
    /// By the path of values: the fields that they go to.
    goes_to: BTreeMap<String, Vec<String>>,
    objects: BTreeMap<String, ()>,
    dynamic: Dynamic,
}

impl Mapping {
    /// Reads `{"properties": {...}}`.
    pub fn read(tree: &Value) -> Result<Mapping, Error> {
        let mut mapping = Mapping {
            tree: if tree.is_object() { tree.clone() } else { json!({}) },
            fields: BTreeMap::new(),
            goes_to: BTreeMap::new(),
            objects: BTreeMap::new(),
            dynamic: match tree.get("dynamic") {
                Some(Value::Bool(false)) => Dynamic::Ignore,
                Some(Value::String(word)) if word == "false" => Dynamic::Ignore,
                Some(Value::String(word)) if word == "strict" => Dynamic::Strict,
                _ => Dynamic::Add,
            },
        };
        if let Some(properties) = tree.get("properties") {
            mapping.properties("", properties, 0)?;
        }
        if mapping.fields.len() > FIELDS {
            return Err(Error::argument(format!(
                "Limit of total fields [{FIELDS}] has been exceeded"
            )));
        }
        Ok(mapping)
    }

    fn properties(&mut self, path: &str, properties: &Value, depth: usize) -> Result<(), Error> {
        let broken = |reason: String| Error::new(400, "mapper_parsing_exception", reason);
        // Some clients write no fields as an empty list.
        if properties.as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        let Value::Object(properties) = properties else {
            return Err(broken("Expected map for property [properties]".into()));
        };
        if depth > DEPTH {
            return Err(Error::argument(format!(
                "Limit of mapping depth [{DEPTH}] has been exceeded"
            )));
        }
        for (name, about) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let of = about.get("type").and_then(Value::as_str);
            match (of, about.get("properties")) {
                (None | Some("object"), inner) => {
                    self.objects.insert(path.clone(), ());
                    if let Some(inner) = inner {
                        self.properties(&path, inner, depth + 1)?;
                    }
                }
                (Some(of), _) => {
                    self.field(&path, &path, of, about, name)?;
                    if let Some(Value::Object(more)) = about.get("fields") {
                        for (sub, about) in more {
                            let of = about.get("type").and_then(Value::as_str).unwrap_or("");
                            self.field(&format!("{path}.{sub}"), &path, of, about, sub)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        path: &str,
        from: &str,
        of: &str,
        about: &Value,
        name: &str,
    ) -> Result<(), Error> {
        let Some(of) = Type::read(of) else {
            let reason = format!("No handler for type [{of}] declared on field [{name}]");
            return Err(Error::new(400, "mapper_parsing_exception", reason));
        };
        let ignore_above = about.get("ignore_above").and_then(Value::as_u64);
        let indexed = about.get("index").is_none_or(|index| *index != json!(false));
        let field = Field {
            of,
            from: from.to_owned(),
            ignore_above: ignore_above.map_or(usize::MAX, |above| above as usize),
            indexed,
        };
        self.fields.insert(path.to_owned(), field);
        self.goes_to.entry(from.to_owned()).or_default().push(path.to_owned());
        Ok(())
    }

    /// As JSON.
    pub fn tree(&self) -> &Value {
        &self.tree
    }

    /// A field by its path, as queries name it.
    pub fn get(&self, path: &str) -> Option<&Field> {
        self.fields.get(path).filter(|field| field.indexed)
    }

    /// All fields, by path.
    pub fn all(&self) -> impl Iterator<Item = (&String, &Field)> {
        self.fields.iter()
    }

    /// This mapping with another one's fields, which may not change the type of any.
    pub fn with(&self, other: &Value) -> Result<Mapping, Error> {
        let wanted = Mapping::read(other)?;
        for (path, field) in &wanted.fields {
            if let Some(own) = self.fields.get(path).filter(|own| own.of != field.of) {
                return Err(Error::argument(format!(
                    "mapper [{path}] cannot be changed from type [{}] to [{}]",
                    own.of.name(),
                    field.of.name()
                )));
            }
        }
        let mut tree = self.tree.clone();
        merge(&mut tree, other);
        match torn(&tree, "") {
            None => Mapping::read(&tree),
            Some((path, inner, of)) => Err(Error::new(
                400,
                "mapper_parsing_exception",
                format!(
                    "Could not dynamically add mapping for field [{path}.{inner}]. Existing \
                     mapping for [{path}] must be of type object but found [{of}]."
                ),
            )),
        }
    }

    /// The indexed values of a document, and the mapping with the fields that it brought, if any.
    pub fn values(&self, id: &str, source: &Value) -> Result<(Values, Option<Mapping>), Error> {
        let mut new = Value::Null;
        let mut values = Vec::new();
        let Value::Object(object) = source else {
            return Err(Error::new(400, "mapper_parsing_exception", "failed to parse")
                .because(Error::new(400, "not_x_content_exception", "a document is an object")));
        };
        self.object("", object, id, &mut values, &mut new, 0)?;
        if new.is_null() {
            return Ok((values, None));
        }
        let next = self.with(&new)?;
        // Once more, since what was new has a field now.
        let (mut values, mut none) = (Vec::new(), Value::Null);
        next.object("", object, id, &mut values, &mut none, 0)?;
        Ok((values, Some(next)))
    }

    fn object(
        &self,
        path: &str,
        object: &Map<String, Value>,
        id: &str,
        values: &mut Vec<(String, Typed)>,
        new: &mut Value,
        depth: usize,
    ) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(Error::argument(format!(
                "The depth of the field [{path}] is greater than [{DEPTH}]"
            )));
        }
        for (name, value) in object {
            if name.is_empty() || name.starts_with('.') || name.ends_with('.') {
                return Err(Error::argument("field name cannot be an empty string"));
            }
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.any(&path, value, id, values, new, depth)?;
        }
        Ok(())
    }

    fn any(
        &self,
        path: &str,
        value: &Value,
        id: &str,
        values: &mut Vec<(String, Typed)>,
        new: &mut Value,
        depth: usize,
    ) -> Result<(), Error> {
        match value {
            Value::Null => Ok(()),
            Value::Array(all) => {
                all.iter().try_for_each(|one| self.any(path, one, id, values, new, depth + 1))
            }
            Value::Object(inner) if !self.goes_to.contains_key(path) => {
                self.object(path, inner, id, values, new, depth + 1)
            }
            value => match self.goes_to.get(path) {
                Some(fields) => {
                    for to in fields {
                        let field = &self.fields[to];
                        if !field.indexed {
                            continue;
                        }
                        let Some(typed) = field.of.value(value) else {
                            return Err(unfit(path, field.of, id, value));
                        };
                        let too_long = match &typed {
                            Typed::Keyword(word) => {
                                word.chars().count() > field.ignore_above
                                    || word.len() > KEYWORD_BYTES
                            }
                            _ => false,
                        };
                        if !too_long {
                            values.push((to.clone(), typed));
                        }
                    }
                    Ok(())
                }
                None if self.objects.contains_key(path) => Err(Error::new(
                    400,
                    "mapper_parsing_exception",
                    format!(
                        "object mapping for [{path}] tried to parse field [{path}] as object, but \
                         found a concrete value"
                    ),
                )),
                None => match self.dynamic {
                    Dynamic::Ignore => Ok(()),
                    Dynamic::Strict => Err(Error::new(
                        400,
                        "strict_dynamic_mapping_exception",
                        format!(
                            "mapping set to strict, dynamic introduction of [{path}] within [_doc] \
                             is not allowed"
                        ),
                    )),
                    Dynamic::Add => {
                        let about = by_itself(value);
                        let mut tree = about;
                        for name in path.rsplit('.') {
                            tree = json!({ "properties": { name: tree } });
                        }
                        match new {
                            Value::Null => *new = tree,
                            // The first value of a field says what it is.
                            known => merge_missing(known, &tree),
                        }
                        Ok(())
                    }
                },
            },
        }
    }
}

fn unfit(path: &str, of: Type, id: &str, value: &Value) -> Error {
    let preview = match value {
        Value::String(text) => text.chars().take(32).collect(),
        other => other.to_string().chars().take(32).collect::<String>(),
    };
    let name = of.name();
    let cause = match of {
        Type::Date => no_date(&preview),
        Type::Boolean => Error::argument(format!(
            "Failed to parse value [{preview}] as only [true] or [false] are allowed."
        )),
        Type::Text | Type::Keyword => Error::new(
            400,
            "illegal_state_exception",
            format!("Can't get text on a {}", super::error::token(value)),
        ),
        Type::Whole(least, most) if value.is_number() => Error::new(
            400,
            "input_coercion_exception",
            format!(
                "Numeric value ({preview}) out of range of {} ({least} - {most})",
                if name == "integer" { "int" } else { name }
            ),
        ),
        Type::Whole(..) | Type::Float => Error::no_number(&preview),
    };
    Error::new(
        400,
        "mapper_parsing_exception",
        format!(
            "failed to parse field [{path}] of type [{name}] in document with id '{id}'. Preview \
             of field's value: '{preview}'"
        ),
    )
    .because(cause)
}

/// A text that is no date.
pub fn no_date(text: &str) -> Error {
    let cause =
        Error::new(400, "date_time_parse_exception", "Failed to parse with all enclosed parsers");
    Error::argument(format!(
        "failed to parse date field [{text}] with format [strict_date_optional_time||epoch_millis]"
    ))
    .because(cause)
}

/// The field that a value brings.
fn by_itself(value: &Value) -> Value {
    match value {
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(number) if number.is_f64() => json!({ "type": "float" }),
        Value::Number(_) => json!({ "type": "long" }),
        Value::String(text) if is_date(text) => json!({ "type": "date" }),
        _ => json!({
            "type": "text",
            "fields": { "keyword": { "type": "keyword", "ignore_above": 256 } },
        }),
    }
}

/// Whether a string is a date by its looks: a day at least.
fn is_date(text: &str) -> bool {
    let looks = text.len() >= 10 && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-';
    looks && date::read(text).is_some()
}

/// A field that would have values of its own and others inside: its path, the name of one of those,
/// and its type.
fn torn(tree: &Value, path: &str) -> Option<(String, String, String)> {
    tree.get("properties")?.as_object()?.iter().find_map(|(name, about)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let of = about.get("type").and_then(Value::as_str).filter(|of| *of != "object");
        let inner = about.get("properties").and_then(Value::as_object);
        match (of, inner.and_then(|inner| inner.keys().next())) {
            (Some(of), Some(inner)) => Some((path, inner.clone(), of.to_owned())),
            _ => torn(about, &path),
        }
    })
}

/// Puts all of `more` into `tree`.
pub fn merge(tree: &mut Value, more: &Value) {
    match (tree, more) {
        (Value::Object(own), Value::Object(more)) => {
            for (name, value) in more {
                match own.get_mut(name) {
                    Some(known) => merge(known, value),
                    None => drop(own.insert(name.clone(), value.clone())),
                }
            }
        }
        (own, more) => *own = more.clone(),
    }
}

/// Puts into `tree` what it does not have.
fn merge_missing(tree: &mut Value, more: &Value) {
    if let (Value::Object(own), Value::Object(more)) = (tree, more) {
        for (name, value) in more {
            match own.get_mut(name) {
                Some(known) => merge_missing(known, value),
                None => drop(own.insert(name.clone(), value.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_by_themselves_and_keep_their_type() {
        let mapping = Mapping::read(&json!({})).expect("empty");
        let source = json!({
            "title": "A Ring", "year": 2009, "price": 1.5, "in": {"print": true},
            "on": "2009-08-17", "tags": ["a", "b"], "none": null,
        });
        let (values, next) = mapping.values("1", &source).expect("fits");
        let next = next.expect("new fields");
        let of = |path: &str| next.get(path).map(|field| field.of);
        assert_eq!(of("title"), Some(Type::Text));
        assert_eq!(of("title.keyword"), Some(Type::Keyword));
        assert_eq!(of("in.print"), Some(Type::Boolean));
        assert_eq!(of("on"), Some(Type::Date));
        assert_eq!(of("none"), None);
        assert_eq!(values.iter().filter(|(path, _)| path == "tags").count(), 2);
        let (again, none) = next.values("1", &source).expect("fits");
        assert_eq!((again, none.is_none()), (values, true));
        let wrong = next.values("7", &json!({"year": "soon"})).expect_err("no number");
        assert_eq!(
            wrong.reason,
            "failed to parse field [year] of type [long] in document with id '7'. Preview of \
             field's value: 'soon'"
        );
        assert!(next.with(&json!({"properties": {"year": {"type": "text"}}})).is_err());
    }

    /// The fuzzer `bulk` found that what was inside was not indexed, and nobody said so.
    #[test]
    fn a_field_has_values_or_other_fields_inside() {
        let empty = Mapping::read(&json!({})).expect("empty");
        let both = json!({"a.b.c": {"d": 3}, "a": "1004-:8-17"});
        let refused = empty.values("1", &both).expect_err("a text that is an object");
        assert_eq!(
            refused.reason,
            "Could not dynamically add mapping for field [a.b]. Existing mapping for [a] must be \
             of type object but found [text]."
        );
        let (_, texts) = empty.values("1", &json!({"a": "x"})).expect("a text");
        let texts = texts.expect("a new field");
        assert!(texts.values("1", &json!({"a.keyword": "x"})).is_err());
        assert!(texts.values("1", &json!({"b.c": 1, "b.d": {"e": 2}})).is_ok());
    }

    #[test]
    fn hostile_documents_are_errors() {
        let mapping = Mapping::read(&json!({"dynamic": "strict"})).expect("empty");
        assert_eq!(
            mapping.values("1", &json!({"a": 1})).expect_err("strict").kind,
            "strict_dynamic_mapping_exception"
        );
        let open = Mapping::read(&json!({})).expect("empty");
        let mut deep = json!(1);
        (0..100).for_each(|_| deep = json!({ "a": deep.clone() }));
        assert!(open.values("1", &deep).is_err());
        let mut wide = Map::new();
        (0..2_000).for_each(|n| drop(wide.insert(format!("f{n}"), json!(n))));
        assert!(open.values("1", &Value::Object(wide)).is_err());
        assert!(open.values("1", &json!([1])).is_err());
    }
}
