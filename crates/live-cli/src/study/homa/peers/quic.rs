//! QUIC: one connection for each pair of hosts, one stream for each message; encrypted, as QUIC is.

use super::{PORT, Rig, broken, on, others, runtime, wish};
use crate::faults::Fault;
use crate::study::homa::books::Ticket;
use bytes::Bytes;
use cavy_testbed::{Plan, Testbed};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TransportConfig};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The name in the certificate.
const NAME: &str = "host.cavy";
/// Streams under way on a connection; more than any run has.
const STREAMS_MAX: u32 = 1 << 16;
/// What a receiver takes ahead on one connection.
const WINDOW_BYTES: u32 = 64 << 20;
/// What waits at a receiving socket, as Homa's. A sending one keeps the system's own size, so that
/// it feels when its link is full.
const SOCKET_BYTES: usize = 8 << 20;

/// Connections from each host to each other.
pub struct Connections {
    /// `pairs[from * hosts + to]`.
    pairs: Vec<Option<Connection>>,
    hosts: u16,
    runtimes: Vec<Runtime>,
    _endpoints: Vec<Endpoint>,
}

/// Starts endpoints on all hosts and connects them.
pub fn start(testbed: &Testbed) -> Result<Connections, Fault> {
    let hosts = testbed.plan().hosts;
    let (server, client) = configurations().map_err(|why| broken(format!("QUIC: {why}")))?;
    let runtimes: Result<Vec<Runtime>, Fault> = testbed.hosts().iter().map(runtime).collect();
    let runtimes = runtimes?;
    let mut endpoints = Vec::new();
    for (host, runtime) in (0..hosts).zip(&runtimes) {
        let (server, client) = (server.clone(), client.clone());
        let open = async move {
            let socket = UdpSocket::bind(SocketAddr::from((Plan::address(host), PORT)))?;
            widen(&socket);
            let tokio = Arc::new(quinn::TokioRuntime);
            let own = EndpointConfig::default();
            let mut endpoint = Endpoint::new(own, Some(server), socket, tokio)?;
            endpoint.set_default_client_config(client);
            tokio::spawn(accept(endpoint.clone()));
            Ok(endpoint)
        };
        endpoints.push(on(runtime, open)?);
    }
    let mut pairs = vec![None; usize::from(hosts) * usize::from(hosts)];
    for (from, (runtime, endpoint)) in (0..hosts).zip(runtimes.iter().zip(&endpoints)) {
        for to in others(from, hosts) {
            let endpoint = endpoint.clone();
            let connect = async move {
                let at = SocketAddr::from((Plan::address(to), PORT));
                let connecting = endpoint.connect(at, NAME).map_err(io::Error::other)?;
                connecting.await.map_err(io::Error::other)
            };
            let place = usize::from(from) * usize::from(hosts) + usize::from(to);
            pairs[place] = Some(on(runtime, connect)?);
        }
    }
    Ok(Connections { pairs, hosts, runtimes, _endpoints: endpoints })
}

/// Room for bursts, as far as the system allows.
fn widen(socket: &UdpSocket) {
    let socket = socket2::SockRef::from(socket);
    let _ = socket.set_recv_buffer_size(SOCKET_BYTES);
}

fn configurations() -> Result<(ServerConfig, ClientConfig), Box<dyn std::error::Error>> {
    let own = rcgen::generate_simple_self_signed([NAME.to_string()])?;
    let certificate = own.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(STREAMS_MAX.into())
        .receive_window(WINDOW_BYTES.into())
        .send_window(WINDOW_BYTES.into())
        .initial_mtu(1_452)
        // A train of segments would pass a port as one packet [homa 7.4].
        .enable_segmentation_offload(false)
        .keep_alive_interval(Some(std::time::Duration::from_secs(3)));
    let transport = Arc::new(transport);
    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    server.transport_config(Arc::clone(&transport));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(transport);
    Ok((server, client))
}

async fn accept(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            loop {
                let (to, from) = connection.accept_bi().await?;
                tokio::spawn(answer(to, from));
            }
            #[allow(unreachable_code, reason = "names the type of the task's errors")]
            Ok::<(), quinn::ConnectionError>(())
        });
    }
}

/// Answers one message. Whoever breaks off gets no answer.
async fn answer(mut to: quinn::SendStream, mut from: quinn::RecvStream) -> Option<()> {
    let message = from.read_to_end(super::MESSAGE_MAX_BYTES).await.ok()?;
    let bytes = wish(&message)?;
    to.write_chunk(Bytes::from(vec![0; bytes])).await.ok()?;
    to.finish().ok()
}

async fn ask(connection: Connection, message: Bytes) -> Option<()> {
    let (mut to, mut from) = connection.open_bi().await.ok()?;
    to.write_chunk(message).await.ok()?;
    to.finish().ok()?;
    from.read_to_end(super::MESSAGE_MAX_BYTES).await.ok().map(drop)
}

impl Rig for Connections {
    fn send(&self, from: u16, to: u16, message: Bytes, ticket: Ticket) {
        let place = usize::from(from) * usize::from(self.hosts) + usize::from(to);
        let ends = self.pairs.get(place).zip(self.runtimes.get(usize::from(from)));
        if let Some((Some(connection), runtime)) = ends {
            let connection = connection.clone();
            runtime.spawn(async move { ticket.end(ask(connection, message).await.is_some()) });
        }
    }

    fn sent_again(&self) -> Option<u64> {
        // What was taken for lost is sent again.
        let lost = |connection: &Connection| connection.stats().path.lost_packets;
        Some(self.pairs.iter().flatten().map(lost).sum())
    }
}
