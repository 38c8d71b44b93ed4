//! An HTTP API over an embedded store: lookups of microseconds beside full scans, both on a typed
//! pool of blocking threads. Run it with `cargo run --example axum_store`: it serves on a free
//! port, asks itself a few questions, prints its metrics and ends. With an address as its argument
//! it serves there until it is killed.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use cavy_live::metrics::prometheus;
use cavy_live::pool::JobError;
use cavy_live::{Kind, Pool};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::io::{Read, Write};
use std::sync::Arc;

const KEYS: TableDefinition<u64, u64> = TableDefinition::new("keys");
const GET: Kind = Kind(1);
const SCAN: Kind = Kind(2);

#[derive(Clone)]
struct Service {
    pool: Pool,
    store: Arc<Database>,
}

fn lookup(store: &Database, key: u64) -> Result<Option<u64>, redb::Error> {
    let table = store.begin_read()?.open_table(KEYS)?;
    Ok(table.get(key)?.map(|value| value.value()))
}

fn scan(store: &Database) -> Result<u64, redb::Error> {
    let table = store.begin_read()?.open_table(KEYS)?;
    let mut sum = 0_u64;
    for entry in table.iter()? {
        sum = sum.wrapping_add(entry?.1.value());
    }
    Ok(sum)
}

/// Overload is an answer, not a wait.
fn status(error: JobError) -> StatusCode {
    match error {
        JobError::Rejected | JobError::Shutdown => StatusCode::SERVICE_UNAVAILABLE,
        JobError::Panicked { .. } | JobError::Cancelled => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

async fn get_key(
    State(Service { pool, store }): State<Service>,
    Path(key): Path<u64>,
) -> Result<String, StatusCode> {
    let found = pool.run(GET, move || lookup(&store, key)).await.map_err(status)?;
    let found = found.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    found.map(|value| value.to_string()).ok_or(StatusCode::NOT_FOUND)
}

async fn get_sum(State(Service { pool, store }): State<Service>) -> Result<String, StatusCode> {
    let sum = pool.run(SCAN, move || scan(&store)).await.map_err(status)?;
    sum.map(|sum| sum.to_string()).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn metrics(State(Service { pool, .. }): State<Service>) -> String {
    prometheus::text(pool.stats(), "store")
}

/// A store in memory with 100 000 keys.
fn fill() -> Result<Database, redb::Error> {
    let store = Database::builder().create_with_backend(redb::backends::InMemoryBackend::new())?;
    let write = store.begin_write()?;
    {
        let mut table = write.open_table(KEYS)?;
        for key in 0..100_000 {
            table.insert(key, key * key)?;
        }
    }
    write.commit()?;
    Ok(store)
}

fn ask(address: std::net::SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = std::net::TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::builder().workers(4).types(["get", "scan"]).queue_limit(1_000).build()?;
    let service = Service { pool, store: Arc::new(fill()?) };
    let app = Router::new()
        .route("/keys/{key}", get(get_key))
        .route("/sum", get(get_sum))
        .route("/metrics", get(metrics))
        .with_state(service);
    #[allow(clippy::disallowed_methods)]
    let address = std::env::args().nth(1);
    let listener =
        tokio::net::TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let bound = listener.local_addr()?;
    println!("serving on http://{bound}/keys/7, /sum and /metrics");
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    if address.is_some() {
        return Ok(server.await??);
    }
    let answers = tokio::task::spawn_blocking(move || -> std::io::Result<Vec<String>> {
        ["/keys/7", "/keys/100000", "/sum", "/metrics"]
            .iter()
            .map(|path| ask(bound, path))
            .collect()
    });
    for answer in answers.await?? {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let lines = body.lines().filter(|line| !line.contains("bucket") && !line.starts_with('#'));
        println!("{}", head.lines().next().unwrap_or(""));
        lines.take(8).for_each(|line| println!("  {line}"));
    }
    Ok(())
}
