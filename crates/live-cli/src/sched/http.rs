//! The server over HTTP/1.1.

use super::doors::{Closed, Ending};
use super::figures;
use super::service::{Refusal, Service};
use super::watched::Watched;
use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// Most headers of a request.
const HEADERS_MAX: usize = 64;

#[derive(Clone)]
struct Shared {
    service: Arc<Service>,
    patience: Duration,
}

/// All routes.
pub fn router(service: Arc<Service>, patience: Duration) -> Router {
    let longest = service.value_bytes_max;
    Router::new()
        .route("/get/{key}", get(get_key))
        .route("/scan", get(scan))
        .route("/set/{key}", put(set_key).post(set_key))
        .route("/timed/{type}", get(work).post(work))
        .route("/stats", get(stats))
        .route("/metrics", get(metrics))
        .route("/live", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .route("/health", get(ready))
        .layer(DefaultBodyLimit::max(longest))
        .with_state(Shared { service, patience })
}

/// Serves one connection until its end; at the end of the server, after the answer under way.
pub async fn serve(
    stream: TcpStream,
    router: Router,
    service: Arc<Service>,
    patience: Duration,
    mut ending: Ending,
) {
    let mut stream = TimeoutStream::new(stream);
    // Reading is limited by the time for a head and for a body; a client that does not fetch its
    // answer is noticed here.
    stream.set_write_timeout(Some(patience));
    let mut http = hyper::server::conn::http1::Builder::new();
    // A client that has said all it will say still takes the answer.
    http.half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let begun = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Watched::new(Box::pin(stream), Arc::clone(&begun)));
    let answered = Arc::clone(&begun);
    let answering = service_fn(move |request| {
        let (router, answered) = (router.clone(), Arc::clone(&answered));
        async move {
            let response = router.oneshot(request).await;
            answered.store(false, Ordering::Relaxed);
            response
        }
    });
    let connection = http.serve_connection(io, answering);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ending.wait() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    let Err(error) = ended else { return };
    if error.is_timeout() {
        let asked = begun.load(Ordering::Relaxed);
        service.counters.note(if asked { Closed::TooSlow } else { Closed::Idle });
    } else if error.is_parse() {
        service.counters.note(Closed::NotUnderstood);
    }
}

/// Whether work should be sent here. A store that could not be written is tried again first.
async fn ready(State(shared): State<Shared>) -> Response {
    let service = Arc::clone(&shared.service);
    let looked = tokio::task::spawn_blocking(move || service.ready_again()).await;
    match looked.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(()) => "ok\n".into_response(),
        Err(why) => answer(StatusCode::SERVICE_UNAVAILABLE, json!({ "error": why })),
    }
}

fn answer(status: StatusCode, body: serde_json::Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, format!("{body}\n")).into_response()
}

fn refuse(refusal: Refusal) -> Response {
    let (status, reason) = match refusal {
        Refusal::Overloaded(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("overloaded: {reason}"))
        }
        Refusal::Ending => (StatusCode::SERVICE_UNAVAILABLE, "the server is ending".to_string()),
        Refusal::Wrong(reason) => (StatusCode::BAD_REQUEST, reason),
        Refusal::Failed(reason) => (StatusCode::INTERNAL_SERVER_ERROR, reason),
    };
    answer(status, json!({ "error": reason }))
}

async fn get_key(State(shared): State<Shared>, Path(key): Path<String>) -> Response {
    match shared.service.get(key.as_bytes()).await {
        Ok(Some(mut value)) => std::mem::take(&mut value.bytes).into_response(),
        Ok(None) => answer(StatusCode::NOT_FOUND, json!({ "error": "no such key" })),
        Err(refusal) => refuse(refusal),
    }
}

async fn scan(State(shared): State<Shared>) -> Response {
    match shared.service.scan(false).await {
        Ok(found) => answer(StatusCode::OK, json!({ "keys": found.keys, "bytes": found.bytes })),
        Err(refusal) => refuse(refusal),
    }
}

async fn set_key(State(shared): State<Shared>, Path(key): Path<String>, body: Body) -> Response {
    let longest = shared.service.value_bytes_max;
    // Not waited for: the client may never send what it announces.
    if body.size_hint().lower() > longest as u64 {
        let reason = format!("the body has more than {longest} bytes");
        return last(answer(StatusCode::PAYLOAD_TOO_LARGE, json!({ "error": reason })));
    }
    let read = axum::body::to_bytes(body, longest);
    let value = match tokio::time::timeout(shared.patience, read).await {
        Ok(Ok(value)) => value,
        Ok(Err(_)) => {
            let reason = format!("the body broke off or has more than {longest} bytes");
            return last(answer(StatusCode::PAYLOAD_TOO_LARGE, json!({ "error": reason })));
        }
        Err(_) => {
            let reason = "the body did not come in time";
            return last(answer(StatusCode::REQUEST_TIMEOUT, json!({ "error": reason })));
        }
    };
    match shared.service.set(key.as_bytes(), &value).await {
        Ok(()) => answer(StatusCode::OK, json!({ "set": key })),
        Err(refusal) => refuse(refusal),
    }
}

/// The rest of the body is not read: no request can follow.
fn last(mut response: Response) -> Response {
    let close = header::HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

async fn work(State(shared): State<Shared>, Path(name): Path<String>) -> Response {
    match shared.service.work(&name).await {
        Ok(span) => answer(StatusCode::OK, json!({ "type": name, "waited_us": span.as_us() })),
        Err(refusal) => refuse(refusal),
    }
}

async fn stats(State(shared): State<Shared>) -> Response {
    answer(StatusCode::OK, figures::json(&shared.service))
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, figures::prometheus(&shared.service)).into_response()
}
