//! Parameters of URLs, and methods of paths.

use super::Query;
use super::error::{Error, meant};

/// Parameters that some request of Elasticsearch or OpenSearch has. Those that are not served are
/// taken, because clients send them whether or not they want something unusual; a name that nobody
/// knows is a mistake.
const KNOWN: [&str; 111] = [
    "_source",
    "_source_exclude",
    "_source_excludes",
    "_source_include",
    "_source_includes",
    "active_only",
    "allow_no_indices",
    "allow_partial_search_results",
    "analyze_wildcard",
    "analyzer",
    "batched_reduce_size",
    "bytes",
    "cancel_after_time_interval",
    "case_sensitive",
    "ccs_minimize_roundtrips",
    "cluster_manager_timeout",
    "completion_fields",
    "default_operator",
    "detailed",
    "df",
    "docvalue_fields",
    "dynamic_templates",
    "error_trace",
    "expand_wildcards",
    "explain",
    "explain_plan",
    "features",
    "fielddata_fields",
    "fields",
    "filter_path",
    "flat_settings",
    "flush",
    "force",
    "force_synthetic_source",
    "format",
    "forbid_closed_indices",
    "from",
    "groups",
    "h",
    "help",
    "human",
    "if_primary_term",
    "if_seq_no",
    "ignore_throttled",
    "ignore_unavailable",
    "include_defaults",
    "include_named_queries_score",
    "include_segment_file_sizes",
    "include_type_name",
    "include_unloaded_segments",
    "index",
    "lenient",
    "level",
    "list_executed_pipelines",
    "local",
    "master_timeout",
    "max_concurrent_searches",
    "max_concurrent_shard_requests",
    "max_num_segments",
    "metric",
    "min_score",
    "node_id",
    "only_expunge_deletes",
    "op_type",
    "phase_took",
    "pipeline",
    "pre_filter_shard_size",
    "preference",
    "preserve_existing",
    "pretty",
    "pri",
    "q",
    "realtime",
    "refresh",
    "request_cache",
    "require_alias",
    "require_data_stream",
    "rest_total_hits_as_int",
    "retry_on_conflict",
    "routing",
    "s",
    "scroll",
    "scroll_id",
    "search_pipeline",
    "search_type",
    "seq_no_primary_term",
    "size",
    "sort",
    "source",
    "source_content_type",
    "stats",
    "stored_fields",
    "suggest_field",
    "suggest_mode",
    "suggest_size",
    "suggest_text",
    "terminate_after",
    "time",
    "timeout",
    "track_scores",
    "track_total_hits",
    "typed_keys",
    "types",
    "update_all_types",
    "v",
    "verbose_pipeline",
    "version",
    "version_type",
    "wait_for_active_shards",
    "wait_for_completion",
    "wait_for_status",
];
/// Of `_cluster/health`.
const WAITS: [&str; 6] = [
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_nodes",
    "wait_if_ongoing",
    "write_index_only",
];

/// Refuses parameters that no request has.
///
/// # Errors
/// In Elasticsearch's words.
pub fn check(path: &[&str], query: &Query) -> Result<(), Error> {
    let known = |name: &&String| KNOWN.contains(&name.as_str()) || WAITS.contains(&name.as_str());
    match query.keys().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => Err(Error::argument(format!(
            "request [/{}] contains unrecognized parameter: [{name}]{}",
            path.join("/"),
            meant(name, &KNOWN).replace(" did you mean", " -> did you mean")
        ))),
    }
}

/// The methods of a path; `None` for a path that is not served.
pub fn methods(path: &[&str]) -> Option<&'static str> {
    Some(match path {
        [] => "GET, HEAD",
        ["_bulk"] | [_, "_bulk"] | [_, "_create", _] => "POST, PUT",
        ["_search", "scroll"] | ["_search", "scroll", _] => "GET, POST, DELETE",
        ["_search" | "_count" | "_msearch" | "_mget" | "_refresh"]
        | [_, "_search" | "_count" | "_msearch" | "_mget"]
        | [_, "_refresh" | "_flush"] => "GET, POST",
        [_, "_forcemerge" | "_doc"] | [_, "_update", _] => "POST",
        ["_stats" | "_license" | "_nodes" | "_cat"]
        | ["_cluster", "health" | "settings"]
        | ["_cluster", "health", _]
        | [_, "_stats"] => "GET",
        ["_mapping" | "_mappings"] => "GET",
        ["_settings"] | [_, "_settings"] => "PUT, GET",
        [_, "_mapping" | "_mappings"] => "PUT, POST, GET",
        [_, "_doc", _] => "PUT, HEAD, POST, GET, DELETE",
        [_, "_source", _] => "GET, HEAD",
        [index] if !index.starts_with('_') => "PUT, HEAD, GET, DELETE",
        _ => return None,
    })
}
