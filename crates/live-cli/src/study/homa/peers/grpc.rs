//! gRPC: unary calls on one HTTP/2 connection for each pair of hosts. The messages are bytes, so
//! that no code has to be made from a description.

use super::{PORT, Rig, listen, on, others, runtime, wish};
use crate::faults::Fault;
use crate::study::homa::books::Ticket;
use bytes::{Buf as _, BufMut as _, Bytes};
use cavy_testbed::{Plan, Testbed};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use tokio::runtime::Runtime;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower::service_fn;

const PATH: &str = "/cavy.Answerer/Answer";
/// What a receiver takes ahead on one stream, and on one connection: whole messages, so that flow
/// control is not what is measured.
const WINDOWS_BYTES: (u32, u32) = (2 << 20, 64 << 20);

/// Channels from each host to each other.
pub struct Channels {
    /// `pairs[from * hosts + to]`.
    pairs: Vec<Option<Channel>>,
    hosts: u16,
    runtimes: Vec<Runtime>,
}

/// Starts servers on all hosts and connects them.
pub fn start(testbed: &Testbed, control: &'static str) -> Result<Channels, Fault> {
    let hosts = testbed.plan().hosts;
    let runtimes: Result<Vec<Runtime>, Fault> = testbed.hosts().iter().map(runtime).collect();
    let runtimes = runtimes?;
    for (host, runtime) in (0..hosts).zip(&runtimes) {
        let open = async move {
            let incoming = TcpIncoming::from(listen(host, control).await?);
            let server = Server::builder()
                .initial_stream_window_size(WINDOWS_BYTES.0)
                .initial_connection_window_size(WINDOWS_BYTES.1)
                .add_service(Answerer)
                .serve_with_incoming(incoming);
            tokio::spawn(server);
            Ok(())
        };
        on(runtime, open)?;
    }
    let mut pairs = vec![None; usize::from(hosts) * usize::from(hosts)];
    for (from, runtime) in (0..hosts).zip(&runtimes) {
        for to in others(from, hosts) {
            let connect = async move {
                let at = format!("http://{}:{PORT}", Plan::address(to));
                let endpoint = Endpoint::from_shared(at).map_err(io::Error::other)?;
                let endpoint = endpoint
                    .initial_stream_window_size(WINDOWS_BYTES.0)
                    .initial_connection_window_size(WINDOWS_BYTES.1);
                // tonic's own connector leaves congestion control as it is.
                let connector = service_fn(move |_: http::Uri| async move {
                    let at = SocketAddr::from((Plan::address(to), PORT));
                    super::connect(at, control).await.map(TokioIo::new)
                });
                endpoint.connect_with_connector(connector).await.map_err(io::Error::other)
            };
            let place = usize::from(from) * usize::from(hosts) + usize::from(to);
            pairs[place] = Some(on(runtime, connect)?);
        }
    }
    Ok(Channels { pairs, hosts, runtimes })
}

impl Rig for Channels {
    fn send(&self, from: u16, to: u16, message: Bytes, ticket: Ticket) {
        let place = usize::from(from) * usize::from(self.hosts) + usize::from(to);
        let ends = self.pairs.get(place).zip(self.runtimes.get(usize::from(from)));
        if let Some((Some(channel), runtime)) = ends {
            let channel = channel.clone();
            runtime.spawn(async move { ticket.end(ask(channel, message).await.is_ok()) });
        }
    }

    fn sent_again(&self) -> Option<u64> {
        None
    }
}

async fn ask(channel: Channel, message: Bytes) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = http::uri::PathAndQuery::from_static(PATH);
    client.unary(Request::new(message), path, Plain).await.map(drop)
}

/// The service.
#[derive(Clone, Copy)]
struct Answerer;

impl NamedService for Answerer {
    const NAME: &'static str = "cavy.Answerer";
}

impl Service<http::Request<tonic::body::Body>> for Answerer {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async move { Ok(tonic::server::Grpc::new(Plain).unary(Answerer, request).await) })
    }
}

impl UnaryService<Bytes> for Answerer {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let bytes = wish(request.get_ref());
        Box::pin(async move {
            let bytes = bytes.ok_or_else(|| Status::invalid_argument("too short"))?;
            Ok(Response::new(Bytes::from(vec![0; bytes])))
        })
    }
}

/// Bytes as they are.
#[derive(Clone, Copy)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let bytes = from.remaining();
        Ok(Some(from.copy_to_bytes(bytes)))
    }
}
