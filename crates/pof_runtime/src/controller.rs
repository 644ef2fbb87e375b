//! The controller's side of a connection: requests and their answers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pof::wire::{Body, Config, ErrorMessage, Message, decode, encode, message_length};
use port::Poller;

use crate::PofError;
use crate::address::ControllerAddress;
use crate::dialing::connect;
use crate::link::{Link, Received};
use crate::listening::Listen;
use crate::tls::TlsOptions;

/// Time that a switch may take for an answer. New programs are compiled meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads of the socket before the clock is looked at.
const READS: usize = 64;

/// Number of the message that asks for a barrier.
const BARRIER_XID: u32 = u32::MAX;

/// A connection with a switch.
pub struct Controller {
    peer: String,
    link: Link,
    input: Vec<u8>,
    /// Time that the switch may take for an answer.
    patience: Duration,
}

/// Answer of a switch to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchAnswer {
    /// The switch refuses the message.
    Refused(ErrorMessage),
    /// A reply.
    Reply(Body),
}

impl Controller {
    /// Connects with a switch that listens, and exchanges greetings.
    ///
    /// # Errors
    /// The switch is not reached, or does not speak the protocol.
    pub fn connect(address: &ControllerAddress, tls: &TlsOptions) -> Result<Controller, PofError> {
        let tls = match address.is_tls {
            true => Some(tls.dialer(&address.host)?),
            false => None,
        };
        let link = connect((&address.host, address.port), tls.as_ref());
        let link = link.map_err(|error| PofError::Peer {
            peer: address.to_string(),
            message: format!("{error}; does `polyplane pof --listen` run there?"),
        })?;
        Controller::greet(address.to_string(), link)
    }

    /// Waits for a switch that dials this side, exchanges greetings and configures it.
    ///
    /// # Errors
    /// The switch does not speak the protocol.
    pub fn wait_for_switch(listen: &Listen) -> Result<(Controller, SocketAddr), PofError> {
        let (link, peer) = listen.accept()?;
        let mut controller = Controller::greet(peer.to_string(), link)?;
        controller.configure()?;
        Ok((controller, peer))
    }

    fn greet(peer: String, link: Link) -> Result<Controller, PofError> {
        let mut controller = Controller {
            peer,
            link,
            input: Vec::new(),
            patience: PATIENCE,
        };
        controller.send(&Message {
            xid: 0,
            body: Body::Hello,
        })?;
        match controller.receive(PATIENCE)? {
            Some(Message {
                body: Body::Hello, ..
            }) => Ok(controller),
            other => Err(controller.failed(format!(
                "it does not begin with HELLO of POF, but with {other:?}"
            ))),
        }
    }

    /// Does what POF controllers do after the greeting: POFSwitch takes other messages only after
    /// these three, in this order.
    fn configure(&mut self) -> Result<(), PofError> {
        let config = Config {
            device: 0,
            flags: 0,
            miss_send_length: u16::MAX,
        };
        let requests = [
            Body::FeaturesRequest,
            Body::SetConfig(config),
            Body::GetConfigRequest,
        ];
        for (xid, body) in (1..).zip(requests) {
            self.send(&Message { xid, body })?;
        }
        loop {
            match self.receive(self.patience)? {
                Some(Message {
                    body: Body::GetConfigReply(_),
                    ..
                }) => return Ok(()),
                Some(Message {
                    body: Body::Error(refused),
                    ..
                }) => return Err(self.failed(format!("it refuses its configuration: {refused:?}"))),
                Some(_) => {}
                None => return Err(self.failed("it does not report its configuration")),
            }
        }
    }

    fn failed(&self, message: impl Into<String>) -> PofError {
        PofError::Peer {
            peer: self.peer.clone(),
            message: message.into(),
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn send(&mut self, message: &Message) -> Result<(), PofError> {
        let mut bytes = encode(message);
        let begin = Instant::now();
        while !bytes.is_empty() || self.link.has_unsent() {
            let sent = self.link.send(&bytes);
            let sent = sent.map_err(|error| self.failed(error.to_string()))?;
            bytes.drain(..sent);
            if sent > 0 || bytes.is_empty() && !self.link.has_unsent() {
                continue;
            }
            // A switch that waits until its answers are read takes no more.
            self.wait(true)?;
            self.take_bytes()?;
            if begin.elapsed() > PATIENCE {
                return Err(self.failed("it takes no more bytes"));
            }
        }
        Ok(())
    }

    /// Waits shortly for bytes, or for room.
    fn wait(&self, for_room: bool) -> Result<(), PofError> {
        let fd = self.link.fd();
        let room = for_room.then_some(fd);
        let waited = Poller::new().wait_with_room([fd], room, Duration::from_millis(100));
        waited
            .map(drop)
            .map_err(PofError::system("wait for a connection"))
    }

    /// Takes bytes that have come. Returns false at the end of the connection.
    fn take_bytes(&mut self) -> Result<bool, PofError> {
        // A switch that sends without end must not keep this side from its clock.
        for _ in 0..READS {
            match self.link.receive(&mut self.input) {
                Ok(Received::Bytes) => {}
                Ok(Received::Nothing) => return Ok(true),
                Ok(Received::End) => return Ok(false),
                Err(error) => return Err(self.failed(error.to_string())),
            }
        }
        Ok(true)
    }

    fn has_message(&self) -> bool {
        message_length(&self.input).is_some_and(|length| length <= self.input.len())
    }

    /// Returns the next message, or `None` if none comes in this time. Questions whether this side
    /// is there are answered.
    ///
    /// # Errors
    /// The connection has ended, or what came is no message.
    pub fn receive(&mut self, within: Duration) -> Result<Option<Message>, PofError> {
        let begin = Instant::now();
        loop {
            while self.has_message()
                && let Some(length) = message_length(&self.input)
            {
                let bytes: Vec<u8> = self.input.drain(..length).collect();
                let message = decode(&bytes);
                let message = message.map_err(|refused| {
                    self.failed(format!("it sent what is no message: {}", refused.error))
                })?;
                let Body::EchoRequest(data) = message.body else {
                    return Ok(Some(message));
                };
                let (xid, body) = (message.xid, Body::EchoReply(data));
                self.send(&Message { xid, body })?;
                if begin.elapsed() >= within {
                    return Ok(None);
                }
            }
            let is_over = !self.take_bytes()?;
            if self.has_message() {
                continue;
            }
            if is_over {
                return Err(self.failed("it closed the connection"));
            }
            if begin.elapsed() >= within {
                return Ok(None);
            }
            // TLS may have bytes of a handshake to send.
            let sent = self.link.send(&[]);
            sent.map_err(|error| self.failed(error.to_string()))?;
            self.wait(self.link.has_unsent())?;
        }
    }

    /// Sends messages, each with its number, and returns all answers to them, in order. Other
    /// messages of the switch are passed over. A switch without barriers (POFSwitch) refuses the
    /// one at the end, which is its last answer too.
    ///
    /// # Errors
    /// The connection has ended, or the switch does not answer.
    pub fn ask(&mut self, messages: &[Message]) -> Result<Vec<(u32, SwitchAnswer)>, PofError> {
        for message in messages {
            self.send(message)?;
        }
        self.send(&Message {
            xid: BARRIER_XID,
            body: Body::BarrierRequest,
        })?;
        let mut answers = Vec::new();
        let mut answered_at = Instant::now();
        loop {
            let rest = self.patience.saturating_sub(answered_at.elapsed());
            let message = match rest.is_zero() {
                true => None,
                false => self.receive(rest)?,
            };
            let Some(Message { xid, body }) = message else {
                let seconds = self.patience.as_secs();
                return Err(self.failed(format!("it has not answered for {seconds} s")));
            };
            let is_answer = messages.iter().any(|message| message.xid == xid);
            match body {
                Body::BarrierReply | Body::Error(_) if xid == BARRIER_XID => return Ok(answers),
                Body::PacketIn(_) | Body::FlowRemoved(_) => continue,
                // Also changes of ports without a request.
                _ if !is_answer => continue,
                Body::Error(failure) => answers.push((xid, SwitchAnswer::Refused(failure))),
                body => answers.push((xid, SwitchAnswer::Reply(body))),
            }
            // Only answers show that the switch is at work on the messages.
            answered_at = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    /// A connection with a switch, of which the test has the socket.
    fn begin() -> (TcpStream, Controller) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = Link::new(listener.accept().unwrap().0, None).unwrap();
        far.write_all(&bytes(Body::Hello)).unwrap();
        let controller = Controller::greet("test".to_owned(), near).unwrap();
        (far, controller)
    }

    fn bytes(body: Body) -> Vec<u8> {
        encode(&Message { xid: 9, body })
    }

    #[test]
    fn an_end_within_a_message_is_an_error() {
        let (mut far, mut controller) = begin();
        let echo = bytes(Body::EchoReply(vec![1; 20]));
        far.write_all(&echo).unwrap();
        far.write_all(&echo[..12]).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        let within = Duration::from_secs(20);
        assert!(controller.receive(within).unwrap().is_some());
        let error = controller.receive(within).unwrap_err();
        assert!(error.to_string().contains("closed"), "{error}");
    }

    #[test]
    fn a_switch_that_only_asks_and_reports_does_not_renew_the_patience() {
        let (mut far, mut controller) = begin();
        controller.patience = Duration::from_millis(300);
        let mut reader = far.try_clone().unwrap();
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        std::thread::spawn(move || {
            let both = [bytes(Body::EchoRequest(vec![1])), bytes(Body::BarrierReply)].concat();
            while far.write_all(&both).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let begin = Instant::now();
        let asked = controller.ask(&[Message {
            xid: 5,
            body: Body::FeaturesRequest,
        }]);
        let error = asked.unwrap_err();
        assert!(error.to_string().contains("not answered"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
