//! The tower layer, under tower's own services, axum and tonic.
#![allow(non_snake_case)]

use axum::body::Body;
use axum::routing::get;
use cavy_live::slots::{SlotError, Slots};
use cavy_live::tower::{SlotsLayer, classify, overload};
use cavy_live::{Kind, Policy};
use http::{Method, Request, StatusCode};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;
use tower::{Layer, Service, ServiceExt, service_fn};

const SHORT: Kind = Kind(1);
const LONG: Kind = Kind(2);

fn slots(count: u16, queue: u32) -> Slots {
    let builder = Slots::builder().slots(count).types(["short", "long"]).queue_limit(queue);
    builder.policy(Policy::FixedPriority).build().expect("legal slots")
}

fn request(path: &str) -> Request<Body> {
    Request::builder().uri(path).body(Body::empty()).expect("a legal request")
}

#[tokio::test]
async fn call__admits_and_a_full_queue_is_an_error_at_once() {
    let slots = slots(1, 1);
    let gate = Arc::new(Notify::new());
    let inner = service_fn({
        let gate = gate.clone();
        move |n: u32| {
            let gate = gate.clone();
            async move {
                gate.notified().await;
                Ok::<u32, SlotError>(n)
            }
        }
    });
    let layer = SlotsLayer::new(slots.clone(), |_: &u32| SHORT, Err);
    let mut service = layer.layer(inner);
    let first = tokio::spawn(service.ready().await.expect("ready").call(1));
    let second = tokio::spawn(service.ready().await.expect("ready").call(2));
    tokio::task::yield_now().await;
    // Still ready: readiness is about the service, not about this request's type.
    let third = service.ready().await.expect("poll_ready does not lie").call(3).await;
    assert_eq!(third, Err(SlotError::Rejected));
    gate.notify_one();
    assert_eq!(first.await.expect("no panic"), Ok(1));
    gate.notify_one();
    assert_eq!(second.await.expect("no panic"), Ok(2));
    assert_eq!(slots.stats().in_system, 0);
}

#[tokio::test]
async fn drop__of_the_response_future_frees_the_slot() {
    let slots = slots(1, 4);
    let inner = service_fn(|_: u32| std::future::pending::<Result<(), Infallible>>());
    let layer = SlotsLayer::new(slots.clone(), |_: &u32| LONG, |_| Ok(()));
    let mut service = layer.layer(inner);
    let mut running = Box::pin(service.ready().await.expect("ready").call(1));
    let mut waiting = Box::pin(service.ready().await.expect("ready").call(2));
    assert!(futures_executor::block_on(std::future::poll_fn(|cx| {
        std::task::Poll::Ready(
            running.as_mut().poll(cx).is_pending() && waiting.as_mut().poll(cx).is_pending(),
        )
    })));
    assert_eq!(slots.stats().in_system, 2);
    drop(waiting);
    drop(running);
    let stats = slots.stats();
    assert_eq!((stats.in_system, stats.waiting), (0, 0), "a client that is gone holds nothing");
}

#[tokio::test]
async fn axum__runs_it_unmodified() {
    let slots = slots(1, 0);
    let gate = Arc::new(Notify::new());
    let calls = Arc::new(AtomicUsize::new(0));
    let handler = {
        let (gate, calls) = (gate.clone(), calls.clone());
        move || async move {
            calls.fetch_add(1, Ordering::SeqCst);
            gate.notified().await;
            "done"
        }
    };
    let kinds = [("/get", SHORT), ("/scan", LONG)];
    let layer = SlotsLayer::new(slots.clone(), classify::by_path(kinds), overload::http_503);
    let app = axum::Router::new()
        .route("/get/{key}", get(|| async { "value" }))
        .route("/scan", get(handler))
        .layer(layer);
    let answer = app.clone().oneshot(request("/get/7")).await.expect("infallible");
    assert_eq!(answer.status(), StatusCode::OK);
    let scan = tokio::spawn(app.clone().oneshot(request("/scan")));
    while calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let overload = app.clone().oneshot(request("/get/7")).await.expect("infallible");
    assert_eq!(overload.status(), StatusCode::SERVICE_UNAVAILABLE);
    gate.notify_one();
    assert_eq!(scan.await.expect("no panic").expect("infallible").status(), StatusCode::OK);
    let stats = slots.stats();
    assert_eq!((stats.types[1].arrivals, stats.types[1].drops, stats.types[2].finished), (2, 1, 1));
}

/// A gRPC service as generated code would make it: named, cloneable, infallible.
#[derive(Clone)]
struct Echo;

impl tonic::server::NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl Service<Request<tonic::body::Body>> for Echo {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<tonic::body::Body>) -> Self::Future {
        let mut response = http::Response::new(tonic::body::Body::empty());
        response.headers_mut().insert("grpc-status", http::HeaderValue::from_static("0"));
        std::future::ready(Ok(response))
    }
}

#[tokio::test]
async fn tonic__runs_it_unmodified() {
    let slots = slots(1, 0);
    let kinds = [("/test.Echo/Say", SHORT)];
    let layer = SlotsLayer::new(slots.clone(), classify::by_path(kinds), overload::grpc);
    let routes = tonic::service::Routes::new(Echo).prepare();
    let mut service = layer.layer(routes);
    let say = || {
        let request = Request::builder().uri("/test.Echo/Say").method(Method::POST);
        request.body(tonic::body::Body::empty()).expect("a legal request")
    };
    let status = |response: http::Response<_>| response.headers()["grpc-status"].clone();
    let answer = service.ready().await.expect("infallible").call(say()).await;
    assert_eq!(status(answer.expect("infallible")), "0");
    let held = slots.acquire(LONG).await.expect("free");
    let answer = service.ready().await.expect("infallible").call(say()).await;
    assert_eq!(status(answer.expect("infallible")), "8", "resource exhausted");
    drop(held);
    assert_eq!(slots.stats().types[1].drops, 1);
}

#[test]
fn classify__by_path_method_and_header() {
    let path = classify::by_path([("/a", Kind(1)), ("/a/b", Kind(2)), ("/c/", Kind(3))]);
    for (uri, kind) in [
        ("/a", Kind(1)),
        ("/a?x=1", Kind(1)),
        ("/a/x", Kind(1)),
        ("/a/b/c", Kind(2)),
        ("/ab", Kind::UNKNOWN),
        ("/c/d", Kind(3)),
        ("/c", Kind::UNKNOWN),
    ] {
        assert_eq!(path(&request(uri)), kind, "{uri}");
    }
    let method = classify::by_method([(Method::GET, Kind(1))]);
    assert_eq!(method(&request("/")), Kind(1));
    let post = Request::builder().method(Method::POST).body(Body::empty()).expect("legal");
    assert_eq!(method(&post), Kind::UNKNOWN);
    let name = http::HeaderName::from_static("x-class");
    let header = classify::by_header(name, [("batch", Kind(2))]);
    assert_eq!(header(&request("/")), Kind::UNKNOWN);
    let batch = Request::builder().header("x-class", "batch").body(()).expect("legal");
    let header =
        classify::by_header(http::HeaderName::from_static("x-class"), [("batch", Kind(2))]);
    assert_eq!(header(&batch), Kind(2));
}
