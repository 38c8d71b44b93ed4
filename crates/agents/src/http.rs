//! The service on a socket: HTTP/1.1, with limits on what clients may make it wait for and keep.

use crate::service::{Answer, Ask, Service};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::digest::{SHA256, digest};
use rustix::time::{ClockId, clock_gettime};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// How often the service looks after its files.
const TEND: Duration = Duration::from_secs(1);

/// What can be chosen of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens.
    pub bind: SocketAddr,
    /// What clients must bring as `Authorization: Bearer TOKEN` or `X-Consul-Token: TOKEN`.
    /// Without one it listens on addresses of this host only.
    pub token: Option<String>,
    /// Connections at once.
    pub connections: usize,
    /// How long a client may take over a request or its answer, or say nothing.
    pub patience: Duration,
}

impl Options {
    /// A thousand connections, 30 s of patience, no token.
    pub fn new(bind: SocketAddr) -> Options {
        Options { bind, token: None, connections: 1_024, patience: Duration::from_secs(30) }
    }
}

struct Shared {
    service: Arc<Service>,
    token: Option<Vec<u8>>,
    patience: Duration,
    turned_away: AtomicU64,
}

/// A running server. It ends, after what is under way, when this is dropped.
pub struct Server {
    address: SocketAddr,
    end: watch::Sender<bool>,
    runtime: Option<tokio::runtime::Runtime>,
    shared: Arc<Shared>,
    connections: Arc<Semaphore>,
    most: u32,
}

fn sum(token: &str) -> Vec<u8> {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    clock_gettime(ClockId::Realtime).tv_sec.unsigned_abs()
}

impl Server {
    /// Listens and answers. `say` is told what there is to say of files.
    ///
    /// # Errors
    /// When the address is not this host's own and there is no token, or the system refuses.
    pub fn start(
        service: Arc<Service>,
        options: &Options,
        say: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Server> {
        if options.token.is_none() && !options.bind.ip().is_loopback() {
            let at = options.bind;
            let why = format!("{at} can be reached from elsewhere: give a token, or 127.0.0.1");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(options.bind))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            service,
            token: options.token.as_deref().map(sum),
            patience: options.patience,
            turned_away: AtomicU64::new(0),
        });
        let most = u32::try_from(options.connections.clamp(1, 100_000)).unwrap_or(1);
        let connections = Arc::new(Semaphore::new(most as usize));
        let (end, ending) = watch::channel(false);
        let (room, of) = (Arc::clone(&connections), Arc::clone(&shared));
        runtime.spawn(accept(listener, of, room, ending.clone()));
        let of = Arc::clone(&shared);
        runtime.spawn(async move {
            let mut ending = ending;
            let mut say = say;
            loop {
                let service = Arc::clone(&of.service);
                // What it says is said outside, and reading files is no work for these threads.
                let told = tokio::task::spawn_blocking(move || (service.tend(), say)).await;
                let Ok((told, back)) = told else { return };
                say = back;
                told.iter().for_each(|line| say(line));
                tokio::select! {
                    () = tokio::time::sleep(TEND) => {}
                    () = ends(&mut ending) => return,
                }
            }
        });
        Ok(Server { address, end, runtime: Some(runtime), shared, connections, most })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections closed at once because there were too many.
    pub fn turned_away(&self) -> u64 {
        self.shared.turned_away.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end.send(true);
        let Some(runtime) = self.runtime.take() else { return };
        let (connections, most) = (Arc::clone(&self.connections), self.most);
        runtime.block_on(async move {
            let ended = connections.acquire_many(most);
            let _ = tokio::time::timeout(Duration::from_secs(5), ended).await;
        });
        runtime.shutdown_background();
    }
}

/// Returns when the server ends.
async fn ends(ending: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is an end as well.
    let _ = ending.wait_for(|ends| *ends).await;
}

async fn accept(
    listener: TcpListener,
    shared: Arc<Shared>,
    room: Arc<Semaphore>,
    mut ending: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ends(&mut ending) => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, most likely: let some connections end first.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            shared.turned_away.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let (shared, ending) = (Arc::clone(&shared), ending.clone());
        tokio::spawn(async move {
            serve(stream, shared, ending).await;
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, mut ending: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    // A client that does not fetch its answer; slow questions are limited below.
    stream.set_write_timeout(Some(shared.patience));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(shared.patience)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let answering = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(&shared, request).await) }
    });
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), answering);
    let mut connection = std::pin::pin!(connection);
    // Whatever ends it, the client has been told or is gone.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = ends(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.as_mut().await;
        }
    }
}

fn refusal(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    let body = serde_json::json!({ "error": why });
    let mut response = Response::new(Full::from(format!("{body}\n")));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn is_allowed(shared: &Shared, request: &Request<Incoming>) -> bool {
    let Some(token) = &shared.token else { return true };
    let of = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let bearer = of(AUTHORIZATION.as_str()).and_then(|text| text.strip_prefix("Bearer "));
    // Sums are compared, so that the time it takes tells nothing of the token.
    bearer.or_else(|| of("x-consul-token")).is_some_and(|given| sum(given) == *token)
}

async fn respond(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    // Whoever watches the service needs no token to hear that it is alive.
    if request.uri().path() != "/live" && !is_allowed(shared, &request) {
        return refusal(
            StatusCode::UNAUTHORIZED,
            "`Authorization: Bearer TOKEN` is missing or wrong",
        );
    }
    let (head, body) = request.into_parts();
    let body = if body.is_end_stream() { Ok(Bytes::new()) } else { whole(shared, body).await };
    let body = match body {
        Ok(body) => body,
        Err((status, why)) => return refusal(status, &why),
    };
    let answering = {
        let shared = Arc::clone(shared);
        move |head: &Parts, body: &[u8]| {
            let (method, path) = (head.method.as_str(), head.uri.path());
            let ask = Ask { method, path, query: head.uri.query().unwrap_or(""), body };
            let began = cavy_clock::now();
            let answer = shared.service.answer(&ask, now_s());
            shared.service.counted.took.add(path, cavy_clock::now().since(began).as_ns());
            answer
        }
    };
    let (method, path) = (head.method.as_str(), head.uri.path());
    let quick = Ask { method, path, query: "", body: &[] }.is_quick();
    if quick {
        return sent(answering(&head, &body));
    }
    // Changes wait for each other and for the disk, and lists of everybody are long: on a thread of
    // its own, so that those who ask who is near are answered meanwhile.
    let service = Arc::clone(&shared.service);
    let answered = tokio::task::spawn_blocking(move || {
        let answer = answering(&head, &body);
        service.wait(&answer).unwrap_or(answer)
    });
    match answered.await {
        Ok(answer) => sent(answer),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the question could not be answered"),
    }
}

/// A body, within the limits.
async fn whole(shared: &Shared, body: Incoming) -> Result<Bytes, (StatusCode, String)> {
    let most = shared.service.limits().body_bytes;
    // Not waited for: the client may never send what it announces.
    if body.size_hint().lower() > most as u64 {
        return Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {most} bytes"),
        ));
    }
    let body = Limited::new(body, most).collect();
    match tokio::time::timeout(shared.patience, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => {
            let why = format!("the body broke off or has more than {most} bytes");
            Err((StatusCode::PAYLOAD_TOO_LARGE, why))
        }
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body did not come in time".to_string())),
    }
}

fn sent(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    for (name, value) in answer.headers {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    response
}
