//! A debugger session: receives bytes, answers packets, reports stops.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;

use doorbell_machine::Outcome;
use gdbstub::common::Signal;
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, GdbStubError, MultiThreadStopReason};

use crate::debuggee::{Debuggee, thread_of};

/// A connection to a debugger.
pub trait Wire: Connection<Error = io::Error> {
    /// Appends received bytes. With `wait` it may block for some milliseconds until data arrives. `false`
    /// once the peer has closed the connection.
    fn receive(&mut self, into: &mut VecDeque<u8>, wait: bool) -> io::Result<bool>;
}

/// The guest state required by a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// The guest must not run.
    Halted,
    /// The debugger has resumed the guest and waits for a stop.
    Running,
    /// The debugger has disconnected; the guest runs without it.
    Detached,
    /// The debugger has requested to end the guest.
    Killed,
}

type Machine<W> = GdbStubStateMachine<'static, Debuggee, W>;
type Failure = GdbStubError<Infallible, io::Error>;

/// A debugger's session.
pub struct Session<W: Wire> {
    /// None after the session has ended.
    state: Option<Machine<W>>,
    received: VecDeque<u8>,
    ended: SessionState,
}

impl<W: Wire> Session<W> {
    /// Starts a session; the guest is halted.
    pub fn new(wire: W, debuggee: &mut Debuggee) -> io::Result<Session<W>> {
        let state = GdbStub::new(wire).run_state_machine(debuggee).map_err(io::Error::other)?;
        Ok(Session { state: Some(state), received: VecDeque::new(), ended: SessionState::Detached })
    }

    /// Answers the debugger's pending packets. While the guest is halted, waits briefly for more.
    pub fn poll(&mut self, debuggee: &mut Debuggee) -> io::Result<SessionState> {
        let mut polled = false;
        loop {
            let state = match self.state.take() {
                None => return Ok(self.ended),
                Some(GdbStubStateMachine::Disconnected(inner)) => {
                    self.ended = match inner.get_reason() {
                        DisconnectReason::Kill => SessionState::Killed,
                        _ => SessionState::Detached,
                    };
                    debuggee.release();
                    return Ok(self.ended);
                }
                Some(GdbStubStateMachine::CtrlCInterrupt(inner)) => {
                    let reason =
                        MultiThreadStopReason::SignalWithThread { tid: thread_of(0), signal: Signal::SIGINT };
                    inner.interrupt_handled(debuggee, Some(reason))
                }
                Some(state) => {
                    let halted = matches!(state, GdbStubStateMachine::Idle(_));
                    let Some(byte) = self.received.pop_front() else {
                        let state = self.state.insert(state);
                        if polled {
                            return Ok(if halted { SessionState::Halted } else { SessionState::Running });
                        }
                        polled = true;
                        if !receive(state, &mut self.received, halted).unwrap_or(false) {
                            self.state = None;
                            debuggee.release();
                        }
                        continue;
                    };
                    match state {
                        GdbStubStateMachine::Idle(inner) => inner.incoming_data(debuggee, byte),
                        GdbStubStateMachine::Running(inner) => inner.incoming_data(debuggee, byte),
                        other => Ok(other),
                    }
                }
            };
            self.advance(state, debuggee)?;
        }
    }

    /// Reports a stop to the debugger, if the run's `outcome` is one that it waits for.
    pub fn report(&mut self, debuggee: &mut Debuggee, outcome: Outcome) -> io::Result<()> {
        let stepped = debuggee.take_stepped();
        let reason = match (outcome, stepped) {
            (Outcome::Breakpoint { hart }, _) => MultiThreadStopReason::SwBreak(thread_of(hart)),
            (_, Some(hart)) => {
                MultiThreadStopReason::SignalWithThread { tid: thread_of(hart), signal: Signal::SIGTRAP }
            }
            _ => return Ok(()),
        };
        self.stop(debuggee, reason)
    }

    /// Reports to the debugger that the guest has exited.
    pub fn exited(&mut self, debuggee: &mut Debuggee, code: u8) -> io::Result<()> {
        self.stop(debuggee, MultiThreadStopReason::Exited(code))
    }

    fn stop(&mut self, debuggee: &mut Debuggee, reason: MultiThreadStopReason<u64>) -> io::Result<()> {
        match self.state.take() {
            Some(GdbStubStateMachine::Running(inner)) => {
                let state = inner.report_stop(debuggee, reason);
                self.advance(state, debuggee)
            }
            other => {
                self.state = other;
                Ok(())
            }
        }
    }

    /// Continues in the next state. A failed session is over, and the guest is released.
    fn advance(&mut self, next: Result<Machine<W>, Failure>, debuggee: &mut Debuggee) -> io::Result<()> {
        match next {
            Ok(state) => {
                self.state = Some(state);
                Ok(())
            }
            Err(error) => {
                debuggee.release();
                Err(io::Error::other(error))
            }
        }
    }
}

fn receive<W: Wire>(state: &mut Machine<W>, into: &mut VecDeque<u8>, wait: bool) -> io::Result<bool> {
    match state {
        GdbStubStateMachine::Idle(inner) => inner.borrow_conn().receive(into, wait),
        GdbStubStateMachine::Running(inner) => inner.borrow_conn().receive(into, wait),
        GdbStubStateMachine::CtrlCInterrupt(inner) => inner.borrow_conn().receive(into, wait),
        GdbStubStateMachine::Disconnected(inner) => inner.borrow_conn().receive(into, wait),
    }
}
