//! Connections by TLS: whom a client believes, and bytes that never block.

use mio::net::TcpStream;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    Error, InvalidMessage, RootCertStore, SignatureScheme,
};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Whose certificates a client believes.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those of authorities that this system trusts.
    System,
    /// Those of the authorities in this file of certificates in PEM, and of no others.
    File(&'a Path),
    /// All. Whoever answers is taken for the server.
    Anybody,
}

/// Why there is nothing to connect with.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A host that no certificate can name.
    #[error("`{0}` is neither a name nor an address that a certificate can be for")]
    Host(String),
    /// A file that cannot be read, or holds no authority.
    #[error("cannot take authorities from {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody whom this system trusts.
    #[error("this system has no certificates of authorities: {0}")]
    System(String),
    /// A configuration that the library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] Error),
}

/// Why a connection by TLS does not come about, or ends. Stands in an [`io::Error`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TlsFault {
    /// No authority that is trusted has signed the certificate.
    #[error("the server's certificate is signed by nobody who is trusted here")]
    Issuer,
    /// The certificate is an authority's own, and not one for a server.
    #[error(
        "the server's certificate is that of an authority (CA:TRUE), as `openssl req -x509` \
         makes it, and none for a server"
    )]
    Authority,
    /// The certificate is for others.
    #[error("the server's certificate is not for `{asked}`; it is for {names}")]
    Name {
        /// Whom the client asked for.
        asked: String,
        /// Whom it is for.
        names: String,
    },
    /// The certificate is not valid today.
    #[error("the server's {0}")]
    Date(String),
    /// What answers is no TLS.
    #[error("the server does not speak TLS on this port")]
    NotTls,
    /// The server ended the connection while it was made.
    #[error("the server closed the connection instead of speaking TLS")]
    HungUp,
    /// The server said nothing.
    #[error("the server did not answer in TLS within {0:?}")]
    Silent(Duration),
    /// The server wants to know who its client is.
    #[error("the server asks for a certificate of the client, and there is none to give")]
    Client,
    /// Anything else.
    #[error("TLS: {0}")]
    Other(String),
}

impl From<Error> for TlsFault {
    fn from(error: Error) -> TlsFault {
        match error {
            Error::InvalidCertificate(certificate) => certificate.into(),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => TlsFault::NotTls,
            Error::AlertReceived(AlertDescription::CertificateRequired) => TlsFault::Client,
            other => TlsFault::Other(other.to_string()),
        }
    }
}

impl From<CertificateError> for TlsFault {
    fn from(error: CertificateError) -> TlsFault {
        match error {
            CertificateError::UnknownIssuer => TlsFault::Issuer,
            CertificateError::NotValidForNameContext { expected, presented } => {
                // As rustls shows them: `name`, `DnsName("name")` or `IpAddress(10.1.2.3)`.
                let plain = |name: &String| match name.split_once('(') {
                    Some((_, name)) => name.trim_matches(['"', ')']).to_string(),
                    None => name.clone(),
                };
                let names: Vec<String> = presented.iter().map(plain).collect();
                let names = match names.is_empty() {
                    true => "no name (it has no subjectAltName)".to_string(),
                    false => names.join(", "),
                };
                TlsFault::Name { asked: expected.to_str().into_owned(), names }
            }
            error @ (CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }) => TlsFault::Date(error.to_string()),
            CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
                TlsFault::Authority
            }
            other => TlsFault::Other(format!("the server's certificate: {other}")),
        }
    }
}

fn fault(fault: impl Into<TlsFault>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, fault.into())
}

/// How to speak to one server by TLS.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
}

impl Tls {
    /// To `host`, a name or an address, in one of `protocols` (names of ALPN; none when empty).
    ///
    /// # Errors
    /// When nobody could be believed, or `host` is no name.
    pub fn new(host: &str, trust: Trust<'_>, protocols: &[&[u8]]) -> Result<Tls, TlsError> {
        let name = ServerName::try_from(host.to_string());
        let name = name.map_err(|_| TlsError::Host(host.to_string()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions()?;
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Anybody => Arc::new(Anybody(provider)),
            Trust::System => verifier(system()?, provider)?,
            Trust::File(path) => verifier(from_file(path)?, provider)?,
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Tls { config: Arc::new(config), host: name })
    }

    /// Greets the server on a connection that stands, until requests can be sent.
    pub(super) fn greet(
        &self,
        mut stream: std::net::TcpStream,
        patience: Duration,
    ) -> io::Result<Encrypted> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let silent = |error: io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => fault(TlsFault::Silent(patience)),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => fault(TlsFault::HungUp),
            _ => error,
        };
        let mut session = self.session()?;
        while session.is_handshaking() || session.wants_write() {
            if session.wants_write() {
                session.write_tls(&mut stream).map_err(silent)?;
                continue;
            }
            if session.read_tls(&mut stream).map_err(silent)? == 0 {
                return Err(fault(TlsFault::HungUp));
            }
            if let Err(error) = session.process_new_packets() {
                // The server should learn why.
                let _ = session.write_tls(&mut stream);
                return Err(fault(error));
            }
        }
        stream.set_nonblocking(true)?;
        Ok(Encrypted { session, socket: TcpStream::from_std(stream) })
    }

    /// The same on a connection that is being made: greetings go before the first request.
    pub(super) fn wrap(&self, socket: TcpStream) -> io::Result<Encrypted> {
        Ok(Encrypted { session: self.session()?, socket })
    }

    fn session(&self) -> io::Result<ClientConnection> {
        let session = ClientConnection::new(Arc::clone(&self.config), self.host.clone());
        let mut session = session.map_err(fault)?;
        // What is written is taken whole: requests wait in one place only, and they are bounded.
        session.set_buffer_limit(None);
        Ok(session)
    }
}

fn verifier(
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    builder
        .build()
        .map(|verifier| verifier as _)
        .map_err(|error| TlsError::System(error.to_string()))
}

fn system() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map(ToString::to_string);
        return Err(TlsError::System(why.unwrap_or_else(|| "none was found".to_string())));
    }
    Ok(roots)
}

fn from_file(path: &Path) -> Result<RootCertStore, TlsError> {
    let wrong = |reason: String| TlsError::File { path: path.display().to_string(), reason };
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(wrong("it holds no certificate in PEM (BEGIN CERTIFICATE)".to_string())),
        false => Ok(roots),
    }
}

/// Believes every certificate. Signatures are checked all the same, so that the server has the key
/// of what it shows.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A connection by TLS that never blocks.
pub(super) struct Encrypted {
    session: ClientConnection,
    socket: TcpStream,
}

impl Encrypted {
    /// What tells when there is something to read, or room to write.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Writes what is encrypted, as far as the socket has room.
    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::NotConnected => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }
}

impl Read for Encrypted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Many servers hang up without taking leave.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            self.session.read_tls(&mut self.socket)?;
            if let Err(error) = self.session.process_new_packets() {
                let _ = self.push();
                return Err(fault(error));
            }
            // What the server asked for, and requests that waited for its greetings.
            self.push()?;
        }
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(bytes)?;
        self.push()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}
