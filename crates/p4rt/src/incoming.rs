//! Incoming connections: listening address, TLS, identity of clients, and limits.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tls::{ClientCertificate, PemIdentity, PemNames, TlsError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::server::Connected;

use crate::access::{Allow, Who};
use crate::logged::Limit;
use crate::places::{Client, Place, Places};
use crate::request_error::{Checked, RequestError};
use crate::server::ServerError;

/// Timeout of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Timeout for the first bytes after the handshake. Later, keepalive pings detect dead clients.
const FIRST_BYTES: Duration = Duration::from_secs(5);

/// Pause after `accept` fails because the process has no free descriptor.
const RETRY: Duration = Duration::from_millis(50);

/// Listening address of a server, and the clients that may reach it.
#[derive(Clone, Debug)]
pub struct Listen {
    /// The address. Port 0 means any free port.
    pub address: SocketAddr,
    /// TLS settings, with the server's certificate.
    pub tls: Option<Tls>,
    /// The machines that may reach the address.
    pub reach: Reach,
}

/// Range of clients that may reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only this machine.
    Loopback,
    /// Other machines, if the client has a certificate.
    Certified,
    /// Other machines, without certificates.
    Anyone,
}

/// TLS settings, as PEM texts.
#[derive(Clone)]
pub struct Tls {
    /// The server's certificate chain.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
    /// Settings for client certificates. Without them clients need none.
    pub clients: Option<Clients>,
}

/// Settings for clients with certificates.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Certificates of the authorities that sign client certificates, in PEM.
    pub ca: Vec<u8>,
    /// Permissions of the clients. If there are none, every client may do everything.
    pub allowed: Vec<Allow>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The private key must not be printed.
        f.debug_struct("Tls")
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

impl From<SocketAddr> for Listen {
    /// Listens on this machine only, without TLS.
    fn from(address: SocketAddr) -> Listen {
        Listen {
            address,
            tls: None,
            reach: Reach::Loopback,
        }
    }
}

/// Error in the listening settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// The address is not a loopback address, and other machines were not permitted.
    NotLoopback,
    /// Other machines would reach the server without encryption.
    NoTls,
    /// Any client on another machine could control the switch.
    NoClients,
    /// A PEM text is not valid.
    Tls(TlsError),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::NotLoopback => f.write_str(
                "would be open to other machines; use 127.0.0.1 or [::1], and a tunnel (ssh -L) from elsewhere, or give \
                 --listen-beyond-loopback with TLS",
            ),
            ListenError::NoTls => f.write_str(
                "would be open to other machines without encryption; give --tls-cert and --tls-key",
            ),
            ListenError::NoClients => f.write_str(
                "would let anyone who reaches it control the switch; give --tls-client-ca, or --anyone-may-control if that is meant",
            ),
            ListenError::Tls(error) => error.fmt(f),
        }
    }
}

impl Listen {
    fn check(&self) -> Result<(), ListenError> {
        if self.address.ip().is_loopback() {
            return Ok(());
        }
        match (self.reach, &self.tls) {
            (Reach::Loopback, _) => Err(ListenError::NotLoopback),
            (_, None) => Err(ListenError::NoTls),
            (Reach::Certified, Some(Tls { clients: None, .. })) => Err(ListenError::NoClients),
            _ => Ok(()),
        }
    }

    /// Checks the settings, and the certificates of TLS.
    ///
    /// # Errors
    /// The settings are not permitted, or a certificate is wrong.
    pub fn check_certificates(&self) -> Result<(), ServerError> {
        let door = self.door().map(drop);
        door.map_err(|error| ServerError::Listen(self.address, error))
    }

    /// Returns the acceptor of connections.
    pub(crate) fn door(&self) -> Result<Acceptor, ListenError> {
        self.check()?;
        let Some(tls) = &self.tls else {
            return Ok(Acceptor::Plain);
        };
        let clients = tls.clients.as_ref();
        let config = server_config(tls, clients)?;
        Ok(Acceptor::Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            wants_certificates: clients.is_some(),
            allowed: Arc::from(self.allowed()),
        })
    }

    /// Returns the clients' permissions at every device.
    pub(crate) fn allowed(&self) -> &[Allow] {
        let clients = self.tls.as_ref().and_then(|tls| tls.clients.as_ref());
        clients.map_or(&[], |clients| &clients.allowed)
    }
}

fn server_config(tls: &Tls, clients: Option<&Clients>) -> Result<ServerConfig, ListenError> {
    const NAMES: PemNames = PemNames {
        certificate: "the server's certificate",
        key: "the server's key",
        ca: "the clients' CA",
    };
    let identity = PemIdentity {
        certificate: &tls.certificate,
        key: &tls.key,
    };
    // A client without a certificate is accepted here. Later gRPC refuses it with a readable
    // error, before any request is processed.
    let clients = clients.map(|clients| (&clients.ca[..], ClientCertificate::Optional));
    let config = tls::server_config(NAMES, identity, clients);
    let mut config = config.map_err(ListenError::Tls)?;
    // gRPC is HTTP/2.
    config.alpn_protocols.push(b"h2".to_vec());
    Ok(config)
}

/// Acceptor of connections.
#[derive(Clone)]
pub(crate) enum Acceptor {
    Plain,
    Tls {
        acceptor: TlsAcceptor,
        /// True if clients must have certificates.
        wants_certificates: bool,
        /// The clients' permissions at every device.
        allowed: Arc<[Allow]>,
    },
}

/// The acceptor of connections from now on. Connections that are open stay.
#[derive(Clone)]
pub(crate) struct Door(Arc<RwLock<Acceptor>>);

impl Door {
    pub(crate) fn new(acceptor: Acceptor) -> Door {
        Door(Arc::new(RwLock::new(acceptor)))
    }

    /// Replaces the acceptor.
    pub(crate) fn set(&self, acceptor: Acceptor) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
    }

    fn acceptor(&self) -> Acceptor {
        let acceptor = self.0.read().unwrap_or_else(PoisonError::into_inner);
        acceptor.clone()
    }
}

/// The peer of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    who: Checked<Who>,
}

impl Peer {
    /// Returns the identity of the client.
    ///
    /// # Errors
    /// The client has not identified itself although it must.
    pub(crate) fn who(&self) -> Result<&Who, RequestError> {
        self.who.as_ref().map_err(Clone::clone)
    }

    /// Returns the peer of a request.
    pub(crate) fn of<T>(request: &tonic::Request<T>) -> Result<&Peer, Status> {
        // The server's connections attach the peer. Without it, nothing is allowed.
        let unknown = || Status::unauthenticated("it is not known who asks");
        request.extensions().get().ok_or_else(unknown)
    }
}

trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// A connection.
pub(crate) struct Connection {
    stream: Pin<Box<dyn Stream>>,
    peer: Peer,
    /// Closes the connection if it fires before the client has sent anything.
    first: Option<Pin<Box<tokio::time::Sleep>>>,
    _place: Place,
}

impl Drop for Connection {
    fn drop(&mut self) {
        tracing::debug!(peer = %self.peer.address, "connection closed");
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.stream.as_mut().poll_read(cx, buf);
        if let Some(first) = &mut self.first {
            match &read {
                Poll::Ready(_) if buf.filled().len() > before => self.first = None,
                Poll::Pending if first.as_mut().poll(cx).is_ready() => {
                    let late = io::Error::new(io::ErrorKind::TimedOut, "the client says nothing");
                    return Poll::Ready(Err(late));
                }
                _ => {}
            }
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Accepts connections and yields those that pass the acceptor. A client that fails there does not
/// affect the others, and neither does a lack of descriptors.
pub(crate) fn connections(
    listener: TcpListener,
    door: Door,
) -> ReceiverStream<Result<Connection, io::Error>> {
    let (sender, connections) = mpsc::channel(1);
    tokio::spawn(accept(listener, door, sender));
    ReceiverStream::new(connections)
}

async fn accept(
    listener: TcpListener,
    door: Door,
    connections: mpsc::Sender<Result<Connection, io::Error>>,
) {
    let places = Places::new();
    let failures = Limit::default();
    let refusals = Arc::new(Limit::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.closed() => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(unsaid) = failures.may_say() {
                    tracing::warn!(%error, unsaid, "a connection cannot be accepted");
                }
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        // Failing to set the option only affects latency.
        let _ = stream.set_nodelay(true);
        let (door, connections) = (door.acceptor(), connections.clone());
        let (refusals, places) = (Arc::clone(&refusals), places.clone());
        let (coming, goes) = places.come();
        tokio::spawn(async move {
            let entered = tokio::select! {
                entered = door.enter(stream, address) => entered,
                _ = goes => Err(io::Error::other("too many others come")),
            };
            drop(coming);
            let (stream, peer) = match entered {
                Ok(entered) => entered,
                Err(error) => {
                    return refused(&refusals, address, &format!("TLS handshake: {error}"));
                }
            };
            let (client, is_operator) = door.client(&peer);
            let place = match places.take(client, is_operator) {
                Ok(place) => place,
                Err(why) => return refused(&refusals, address, &why),
            };
            match &peer.who {
                Ok(_) => tracing::debug!(peer = %address, "connection opened"),
                Err(fault) => refused(&refusals, address, &fault.message),
            }
            let connection = Connection {
                stream,
                peer,
                first: Some(Box::pin(tokio::time::sleep(FIRST_BYTES))),
                _place: place,
            };
            // The receiver is gone only if the server has stopped.
            let _ = connections.send(Ok(connection)).await;
        });
    }
}

/// Logs that a client was refused.
pub(crate) fn refused(limit: &Limit, peer: SocketAddr, why: &str) {
    if let Some(unsaid) = limit.may_say() {
        tracing::warn!(%peer, why, unsaid, "client refused");
    }
}

impl Acceptor {
    /// Returns the identity under which a client's connections are counted, and true if it is an
    /// operator.
    fn client(&self, peer: &Peer) -> (Client, bool) {
        let allowed = match self {
            Acceptor::Tls {
                wants_certificates: true,
                allowed,
                ..
            } => &allowed[..],
            Acceptor::Plain | Acceptor::Tls { .. } => &[],
        };
        match &peer.who {
            Ok(Who::Named(names)) => {
                let rights = Who::Named(names.clone()).rights(allowed, &[]);
                let is_operator =
                    !allowed.is_empty() && rights.is_ok_and(|rights| rights.check_role("").is_ok());
                (Client::Named(names.clone()), is_operator)
            }
            // Clients that need no certificate may do everything.
            Ok(Who::Anyone) => (Client::At(peer.address.ip()), true),
            Err(_) => (Client::At(peer.address.ip()), false),
        }
    }

    async fn enter(
        &self,
        stream: TcpStream,
        address: SocketAddr,
    ) -> io::Result<(Pin<Box<dyn Stream>>, Peer)> {
        let (acceptor, wants_certificates) = match self {
            Acceptor::Plain => {
                let who = Ok(Who::Anyone);
                return Ok((Box::pin(stream), Peer { address, who }));
            }
            Acceptor::Tls {
                acceptor,
                wants_certificates,
                ..
            } => (acceptor, wants_certificates),
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the client does not finish it");
        let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
        let stream = handshake.await.map_err(late)??;
        let who = match wants_certificates {
            false => Ok(Who::Anyone),
            true => {
                let chain = stream.get_ref().1.peer_certificates();
                let own = chain.and_then(|chain| chain.first());
                Who::certified(own.map(AsRef::as_ref))
            }
        };
        Ok((Box::pin(stream), Peer { address, who }))
    }
}
