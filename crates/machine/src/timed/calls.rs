//! Call tree of the guest, built from executed calls and returns: one stack of return addresses per guest
//! thread.
//!
//! A thread is identified by its domain and by `tp`: the thread-local storage in a program, the task in the
//! kernel. Calls and returns are recognised by the psABI's link registers. A return pops to the youngest
//! frame with its address. Without such a frame (the call preceded the observation) it clears the stack. A
//! call becomes a frame when the callee's first block runs. A trap in the kernel keeps the interrupted stack
//! below the handler's frames; a trap from a program starts with an empty kernel stack.

use std::collections::HashMap;

use doorbell_sim::{Op, OpClass};

/// Maximum stack depth; deeper calls are charged to the function at this depth.
const DEPTH_MAX: usize = 96;

/// Domain in which code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Machine mode, with physical addresses.
    Firmware,
    /// The kernel, in any address space.
    Kernel,
    /// A user program, with its address space.
    User(u16),
}

impl Domain {
    /// The domain of an op executed in this address space.
    pub(crate) fn of(op: &Op, space: Option<u16>) -> Domain {
        match (space, op.flags & Op::PRIVILEGED != 0) {
            (Some(space), false) => Domain::User(space),
            (None, true) => Domain::Firmware,
            (Some(_), true) => Domain::Kernel,
            (None, false) => Domain::User(0),
        }
    }
}

/// Node of the call tree: a function on one call path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// Number of the caller's node; the root of a domain has its own number here.
    pub parent: u32,
    /// The domain.
    pub domain: Domain,
    /// Virtual and physical address of its first instruction; 0 for a root.
    pub entry: [u64; 2],
}

#[derive(Debug, Default)]
struct Stack {
    /// Return addresses, and the node that each returns to.
    frames: Vec<(u64, u32)>,
    node: u32,
    /// A callee whose first block has not run yet.
    called: Option<u64>,
}

/// The call tree, and the present node of each thread.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub nodes: Vec<CallNode>,
    children: HashMap<(u32, u64), u32>,
    roots: HashMap<Domain, u32>,
    threads: HashMap<(Domain, u64), u32>,
    stacks: Vec<Stack>,
}

/// The thread that a hart runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    key: (Domain, u64),
    stack: u32,
    /// The program has trapped, and its task has not yet called a function in the kernel.
    fresh: bool,
}

impl Calls {
    /// Returns the thread with this domain and `tp`; `before` is the hart's previous thread.
    #[inline]
    pub(crate) fn thread(&mut self, before: Option<Thread>, domain: Domain, tp: u64) -> Thread {
        match before {
            Some(thread) if thread.key == (domain, tp) => thread,
            _ => self.switch_thread(before, domain, tp),
        }
    }

    #[inline(never)]
    fn switch_thread(&mut self, before: Option<Thread>, domain: Domain, tp: u64) -> Thread {
        let key = (domain, tp);
        let stack = match self.threads.get(&key) {
            Some(stack) => *stack,
            None => {
                let node = self.root(domain);
                self.stacks.push(Stack { node, ..Stack::default() });
                let stack = self.stacks.len() as u32 - 1;
                self.threads.insert(key, stack);
                stack
            }
        };
        let from_user = before.is_some_and(|thread| thread.fresh || matches!(thread.key.0, Domain::User(_)));
        let fresh = domain == Domain::Kernel && from_user;
        if fresh {
            let node = self.root(domain);
            self.stacks[stack as usize] = Stack { node, ..Stack::default() };
        }
        Thread { key, stack, fresh }
    }

    fn root(&mut self, domain: Domain) -> u32 {
        let nodes = &mut self.nodes;
        *self.roots.entry(domain).or_insert_with(|| {
            let number = nodes.len() as u32;
            nodes.push(CallNode { parent: number, domain, entry: [0; 2] });
            number
        })
    }

    /// The node in which a thread's next block runs.
    #[inline]
    pub(crate) fn node(&mut self, thread: Thread, first: &Op) -> u32 {
        let stack = &mut self.stacks[thread.stack as usize];
        if stack.called == Some(first.pc) {
            stack.called = None;
            let parent = stack.node;
            stack.node = match self.children.get(&(parent, first.fetch.0)) {
                Some(node) => *node,
                None => {
                    let number = self.nodes.len() as u32;
                    let domain = thread.key.0;
                    self.nodes.push(CallNode { parent, domain, entry: [first.pc, first.fetch.0] });
                    self.children.insert((parent, first.fetch.0), number);
                    number
                }
            };
        }
        stack.node
    }

    /// Updates a thread's stack after a block that ends with `last`.
    #[inline]
    pub(crate) fn block_ended(&mut self, thread: &mut Thread, last: &Op) {
        let stack = &mut self.stacks[thread.stack as usize];
        match last.class {
            OpClass::Call | OpClass::IndirectCall => {
                thread.fresh = false;
                if stack.frames.len() < DEPTH_MAX {
                    stack.frames.push((last.pc.wrapping_add(u64::from(last.length)), stack.node));
                    stack.called = Some(last.virt);
                }
            }
            OpClass::Return => match stack.frames.iter().rposition(|(back, _)| *back == last.virt) {
                Some(at) => {
                    stack.node = stack.frames[at].1;
                    stack.frames.truncate(at);
                    stack.called = None;
                }
                None => {
                    let node = self.roots[&thread.key.0];
                    *stack = Stack { node, ..Stack::default() };
                }
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use doorbell_sim::PhysAddr;

    use super::*;

    fn op(pc: u64, class: OpClass, target: u64) -> Op {
        Op { pc, fetch: PhysAddr(pc + 0x1000_0000), class, virt: target, length: 4, ..Op::default() }
    }

    /// Runs blocks of one op each. Returns the function entries on the stack at each block, without the root.
    fn run(calls: &mut Calls, thread: &mut Thread, ops: &[Op]) -> Vec<Vec<u64>> {
        let mut seen = Vec::new();
        for op in ops {
            let mut node = calls.node(*thread, op);
            let mut stack = Vec::new();
            while calls.nodes[node as usize].parent != node {
                stack.insert(0, calls.nodes[node as usize].entry[0]);
                node = calls.nodes[node as usize].parent;
            }
            seen.push(stack);
            calls.block_ended(thread, op);
        }
        seen
    }

    #[test]
    fn calls_and_returns_build_a_stack_and_repeated_calls_reuse_nodes() {
        let mut calls = Calls::default();
        let mut thread = calls.thread(None, Domain::User(1), 7);
        let once = [
            op(0x100, OpClass::Call, 0x200),
            op(0x200, OpClass::IndirectCall, 0x300),
            op(0x300, OpClass::Return, 0x204),
            op(0x204, OpClass::Return, 0x104),
            op(0x104, OpClass::Jump, 0x100),
        ];
        let expected = vec![vec![], vec![0x200], vec![0x200, 0x300], vec![0x200], vec![]];
        assert_eq!(run(&mut calls, &mut thread, &once), expected);
        let nodes = calls.nodes.len();
        assert_eq!(run(&mut calls, &mut thread, &once), expected);
        assert_eq!(calls.nodes.len(), nodes);
    }

    #[test]
    fn return_pops_to_the_matching_frame_and_clears_the_stack_without_one() {
        let mut calls = Calls::default();
        let mut thread = calls.thread(None, Domain::User(1), 7);
        let ops = [
            op(0x100, OpClass::Call, 0x200),
            op(0x200, OpClass::Call, 0x300),
            op(0x300, OpClass::Return, 0x104),
            op(0x104, OpClass::Call, 0x400),
            op(0x400, OpClass::Return, 0x9000),
            op(0x9000, OpClass::Int, 0),
        ];
        let stacks = run(&mut calls, &mut thread, &ops);
        assert_eq!(stacks[3..], [vec![], vec![0x400], vec![]]);
    }

    #[test]
    fn each_thread_has_a_stack_and_a_trap_from_user_mode_starts_an_empty_one() {
        let mut calls = Calls::default();
        let user = calls.thread(None, Domain::User(1), 7);
        let mut kernel = calls.thread(Some(user), Domain::Kernel, 0xffff);
        assert_eq!(
            run(&mut calls, &mut kernel, &[op(0x8000, OpClass::Call, 0x8100), op(0x8100, OpClass::Int, 0)])
                [1],
            [0x8100]
        );
        // A switch to another task and back keeps the first task's frame.
        let mut other = calls.thread(Some(kernel), Domain::Kernel, 0xeeee);
        assert_eq!(run(&mut calls, &mut other, &[op(0x8100, OpClass::Int, 0)]), [Vec::<u64>::new()]);
        let mut back = calls.thread(Some(other), Domain::Kernel, 0xffff);
        assert_eq!(run(&mut calls, &mut back, &[op(0x8104, OpClass::Int, 0)]), [vec![0x8100]]);
        // The program continues and traps again.
        let user = calls.thread(Some(back), Domain::User(1), 7);
        let mut trap = calls.thread(Some(user), Domain::Kernel, 0xffff);
        assert_eq!(run(&mut calls, &mut trap, &[op(0x8000, OpClass::Int, 0)]), [Vec::<u64>::new()]);
    }
}
