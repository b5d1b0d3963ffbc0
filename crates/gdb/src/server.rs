//! The TCP port for debuggers, one at a time.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use doorbell_machine::Outcome;
use gdbstub::conn::Connection;

use crate::debuggee::Debuggee;
use crate::session::{Session, SessionState, Wire};

/// Wait for a halted guest's debugger before the console is polled again.
const WAIT: Duration = Duration::from_millis(10);
/// A debugger that accepts no data for this time is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Required state of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No debugger has connected yet; the guest must not run.
    Expecting,
    /// The debugger has halted the guest.
    Halted,
    /// The guest runs.
    Running,
    /// The debugger has requested to end the guest.
    Killed,
}

/// Accepts debuggers and serves one at a time.
pub struct Server {
    listener: TcpListener,
    session: Option<Session<TcpWire>>,
    expecting: bool,
}

impl Server {
    /// Listens. The guest is halted until the first debugger connects.
    pub fn bind(address: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Server { listener, session: None, expecting: true })
    }

    /// The listening address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the debugger. While the guest is halted, blocks for some milliseconds if no packet arrives.
    pub fn poll(&mut self, debuggee: &mut Debuggee) -> io::Result<Status> {
        if self.session.is_none() {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.session = Some(Session::new(TcpWire::new(stream)?, debuggee)?);
                    self.expecting = false;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let Some(session) = &mut self.session else {
            return Ok(if self.expecting { Status::Expecting } else { Status::Running });
        };
        let state = session.poll(debuggee).inspect_err(|_| self.session = None)?;
        Ok(match state {
            SessionState::Halted => Status::Halted,
            SessionState::Running => Status::Running,
            SessionState::Killed => Status::Killed,
            SessionState::Detached => {
                self.session = None;
                Status::Running
            }
        })
    }

    /// Reports the outcome of a run to the debugger, if it waits for it.
    pub fn report(&mut self, debuggee: &mut Debuggee, outcome: Outcome) -> io::Result<()> {
        self.session.as_mut().map_or(Ok(()), |session| session.report(debuggee, outcome))
    }

    /// Reports to the debugger that the guest has exited with this code.
    pub fn exited(&mut self, debuggee: &mut Debuggee, code: u8) -> io::Result<()> {
        self.session.as_mut().map_or(Ok(()), |session| session.exited(debuggee, code))
    }
}

/// A debugger's TCP connection. Packets are small, and each is sent in one write.
struct TcpWire {
    stream: TcpStream,
    unsent: Vec<u8>,
}

impl TcpWire {
    fn new(stream: TcpStream) -> io::Result<TcpWire> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(TcpWire { stream, unsent: Vec::new() })
    }
}

impl Connection for TcpWire {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.unsent.push(byte);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Write::write_all(&mut self.stream, &std::mem::take(&mut self.unsent))
    }
}

impl Wire for TcpWire {
    fn receive(&mut self, into: &mut VecDeque<u8>, wait: bool) -> io::Result<bool> {
        // The stub does not flush after acknowledgements.
        self.flush()?;
        let mut buffer = [0; 4096];
        self.stream.set_nonblocking(!wait)?;
        let result = self.stream.read(&mut buffer);
        self.stream.set_nonblocking(false)?;
        match result {
            Ok(count) => {
                into.extend(&buffer[..count]);
                Ok(count > 0)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}
