//! Types of HTTP requests, by path, method or header. Any `Fn(&Request) -> Kind` does as well.

use cavy_core::family::cpu::Kind;
use http::{HeaderName, Method, Request};

/// By the path's beginning: the longest prefix that ends at a slash or at the path's end decides.
/// gRPC methods are paths too: `/package.Service/Method`. Anything else is [`Kind::UNKNOWN`].
pub fn by_path<B>(
    prefixes: impl IntoIterator<Item = (impl Into<String>, Kind)>,
) -> impl Fn(&Request<B>) -> Kind + Clone {
    let mut prefixes: Vec<(String, Kind)> =
        prefixes.into_iter().map(|(prefix, kind)| (prefix.into(), kind)).collect();
    prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    move |request| {
        let path = request.uri().path();
        let matches = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/')
            })
        };
        let found = prefixes.iter().find(|(prefix, _)| matches(prefix));
        found.map_or(Kind::UNKNOWN, |&(_, kind)| kind)
    }
}

/// By method. Anything else is [`Kind::UNKNOWN`].
pub fn by_method<B>(
    methods: impl IntoIterator<Item = (Method, Kind)>,
) -> impl Fn(&Request<B>) -> Kind + Clone {
    let methods: Vec<(Method, Kind)> = methods.into_iter().collect();
    move |request| {
        let found = methods.iter().find(|(method, _)| method == request.method());
        found.map_or(Kind::UNKNOWN, |&(_, kind)| kind)
    }
}

/// By the value of the header `name`. Anything else is [`Kind::UNKNOWN`].
pub fn by_header<B>(
    name: HeaderName,
    values: impl IntoIterator<Item = (impl Into<String>, Kind)>,
) -> impl Fn(&Request<B>) -> Kind + Clone {
    let values: Vec<(String, Kind)> =
        values.into_iter().map(|(value, kind)| (value.into(), kind)).collect();
    move |request| {
        let Some(value) = request.headers().get(&name) else { return Kind::UNKNOWN };
        let found = values.iter().find(|(known, _)| known.as_bytes() == value.as_bytes());
        found.map_or(Kind::UNKNOWN, |&(_, kind)| kind)
    }
}
