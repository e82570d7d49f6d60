//! Buffers and workgroup memory. Every access is checked against the bounds of its variable, and workgroup memory against races: what
//! one thread writes, another may touch only after a barrier.

use std::collections::HashMap;

use half::f16;
use naga::{GlobalVariable, Handle, Scalar, ScalarKind};

/// A thread, or a subgroup that acts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Thread(usize),
    Subgroup(usize),
    /// Threads of several subgroups.
    Several,
}

/// The last accesses of two bytes, and when: barriers are counted.
#[derive(Clone, Copy, Debug)]
struct Mark {
    writer: (Who, u64),
    reader: (Who, u64),
}

const UNTOUCHED: Mark = Mark { writer: (Who::Several, 0), reader: (Who::Several, 0) };

#[derive(Debug)]
struct Shared {
    name: String,
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

/// Where a global variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Buffer(usize),
    Workgroup(Handle<GlobalVariable>),
}

impl Space {
    pub(super) fn is_buffer(self) -> bool {
        matches!(self, Self::Buffer(_))
    }
}

/// The memory that a workgroup reaches.
#[derive(Debug)]
pub(super) struct Memory<'b> {
    /// By binding.
    pub(super) buffers: &'b mut [Vec<u8>],
    shared: HashMap<Handle<GlobalVariable>, Shared>,
    lanes: usize,
    /// The number of barriers so far, and the last one of the workgroup and of each subgroup.
    now: u64,
    workgroup_barrier: u64,
    subgroup_barriers: Vec<u64>,
}

impl<'b> Memory<'b> {
    pub(super) fn new(buffers: &'b mut [Vec<u8>], lanes: usize, subgroups: usize) -> Self {
        Self { buffers, shared: HashMap::new(), lanes, now: 1, workgroup_barrier: 1, subgroup_barriers: vec![1; subgroups] }
    }

    /// Adds a variable in workgroup memory, of zeros.
    pub(super) fn share(&mut self, variable: Handle<GlobalVariable>, name: &str, bytes: u32) {
        let bytes = vec![0; bytes as usize];
        let marks = vec![UNTOUCHED; bytes.len().div_ceil(2)];
        self.shared.insert(variable, Shared { name: name.to_owned(), bytes, marks });
    }

    pub(super) fn workgroup_barrier(&mut self) {
        self.now += 1;
        self.workgroup_barrier = self.now;
    }

    /// A barrier of each of these subgroups.
    pub(super) fn subgroup_barrier(&mut self, active: &[bool]) {
        self.now += 1;
        for (last, _) in self.subgroup_barriers.iter_mut().zip(active).filter(|(_, active)| **active) {
            *last = self.now;
        }
    }

    fn subgroup_of(&self, who: Who) -> Option<usize> {
        match who {
            Who::Thread(thread) => Some(thread / self.lanes),
            Who::Subgroup(subgroup) => Some(subgroup),
            Who::Several => None,
        }
    }

    /// Whether an access comes before those of `who` now.
    fn ordered(&self, (before, time): (Who, u64), who: Who) -> bool {
        let same = self.subgroup_of(before).filter(|subgroup| Some(*subgroup) == self.subgroup_of(who));
        time < self.workgroup_barrier
            || same.is_some_and(|subgroup| time < self.subgroup_barriers[subgroup])
            || (before == who && matches!(who, Who::Thread(_)))
    }

    fn mark(&mut self, variable: Handle<GlobalVariable>, at: usize, width: usize, who: Who, writes: bool) {
        for unit in at / 2..(at + width).div_ceil(2) {
            let Shared { name, marks, .. } = &self.shared[&variable];
            let Mark { writer, reader } = marks[unit];
            // Two stores of a subgroup's matrix to one place are those of the same threads.
            let again = writes && writer.0 == who && matches!(who, Who::Subgroup(_));
            assert!(
                again || self.ordered(writer, who),
                "a race in `{name}`, byte {at}: {:?} wrote it, {who:?} {} it before a barrier",
                writer.0,
                if writes { "writes" } else { "reads" },
            );
            assert!(
                !writes || self.ordered(reader, who),
                "a race in `{name}`, byte {at}: {:?} read it, {who:?} writes it before a barrier",
                reader.0,
            );
            let (now, readers) = (self.now, self.readers(reader, who));
            let mark = &mut self.shared.get_mut(&variable).unwrap().marks[unit];
            if writes {
                mark.writer = (who, now);
            } else {
                mark.reader = (readers, now);
            }
        }
    }

    /// The readers since the last barrier.
    fn readers(&self, (before, time): (Who, u64), who: Who) -> Who {
        match (self.subgroup_of(before), self.subgroup_of(who)) {
            _ if before == who || time < self.workgroup_barrier => who,
            (Some(one), Some(other)) if one == other => Who::Subgroup(one),
            _ => Who::Several,
        }
    }

    /// Loads a scalar.
    pub(super) fn read(&mut self, space: Space, at: usize, scalar: Scalar, who: Who) -> u32 {
        let width = usize::from(scalar.width);
        self.check(space, at, width);
        if let Space::Workgroup(variable) = space {
            self.mark(variable, at, width, who, false);
        }
        let bytes = match space {
            Space::Buffer(binding) => &self.buffers[binding],
            Space::Workgroup(variable) => &self.shared[&variable].bytes,
        };
        match (scalar.kind, &bytes[at..at + width]) {
            (_, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
            (ScalarKind::Float, &[a, b]) => f16::from_le_bytes([a, b]).to_f32().to_bits(),
            _ => panic!("{scalar:?} is not in memory"),
        }
    }

    /// Stores a scalar.
    pub(super) fn write(&mut self, space: Space, at: usize, scalar: Scalar, value: u32, who: Who) {
        let width = usize::from(scalar.width);
        self.check(space, at, width);
        let bytes = match space {
            Space::Buffer(binding) => &mut self.buffers[binding],
            Space::Workgroup(variable) => {
                self.mark(variable, at, width, who, true);
                &mut self.shared.get_mut(&variable).unwrap().bytes
            }
        };
        match (scalar.kind, &mut bytes[at..at + width]) {
            (_, to @ &mut [_, _, _, _]) => to.copy_from_slice(&value.to_le_bytes()),
            (ScalarKind::Float, to @ &mut [_, _]) => {
                to.copy_from_slice(&f16::from_f32(f32::from_bits(value)).to_le_bytes());
            }
            _ => panic!("{scalar:?} is not in memory"),
        }
    }

    fn check(&self, space: Space, at: usize, width: usize) {
        let len = match space {
            Space::Buffer(binding) => self.buffers[binding].len(),
            Space::Workgroup(variable) => self.shared[&variable].bytes.len(),
        };
        assert!(at + width <= len, "byte {at} of {space:?}, which has {len}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: Scalar = Scalar::U32;

    /// Runs accesses of a variable of 16 bytes in workgroup memory, by two subgroups of four lanes.
    fn shared(accesses: impl FnOnce(&mut Memory<'_>, Space)) -> bool {
        let mut globals = naga::Arena::new();
        let variable = GlobalVariable {
            name: None,
            space: naga::AddressSpace::WorkGroup,
            binding: None,
            ty: naga::UniqueArena::new()
                .insert(naga::Type { name: None, inner: naga::TypeInner::Scalar(WORD) }, naga::Span::UNDEFINED),
            init: None,
            memory_decorations: naga::MemoryDecorations::empty(),
        };
        let variable = globals.append(variable, naga::Span::UNDEFINED);
        let run = || {
            let mut memory = Memory::new(&mut [], 4, 2);
            memory.share(variable, "shared", 16);
            accesses(&mut memory, Space::Workgroup(variable));
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok()
    }

    #[test]
    fn barriers_order_accesses() {
        use Who::{Subgroup, Thread};
        let write = |memory: &mut Memory<'_>, space, who| memory.write(space, 4, WORD, 7, who);
        let read = |memory: &mut Memory<'_>, space, who| assert_eq!(memory.read(space, 4, WORD, who), 7);
        assert!(shared(|memory, space| [write, read].iter().for_each(|access| access(memory, space, Thread(1)))));
        for other in [Thread(2), Thread(5), Subgroup(0)] {
            let after = |order: &dyn Fn(&mut Memory<'_>)| {
                shared(|memory, space| {
                    write(memory, space, Thread(1));
                    order(memory);
                    read(memory, space, other);
                })
            };
            assert!(!after(&|_| ()) && after(&|memory| memory.workgroup_barrier()));
            // The barrier of a subgroup orders its own accesses, another's none.
            assert_eq!(after(&|memory| memory.subgroup_barrier(&[true, false])), other != Thread(5));
            assert!(!after(&|memory| memory.subgroup_barrier(&[false, true])));
        }
        let readers = |first, second, order: &dyn Fn(&mut Memory<'_>)| {
            shared(|memory, space| {
                write(memory, space, Thread(0));
                memory.workgroup_barrier();
                [first, second].into_iter().for_each(|who| read(memory, space, who));
                order(memory);
                write(memory, space, Thread(0));
            })
        };
        assert!(!readers(Thread(0), Thread(1), &|_| ()));
        assert!(readers(Thread(0), Thread(1), &|memory| memory.subgroup_barrier(&[true, true])));
        assert!(!readers(Subgroup(1), Thread(0), &|memory| memory.subgroup_barrier(&[true, true])));
        assert!(readers(Subgroup(1), Thread(0), &|memory| memory.workgroup_barrier()));
        assert!(!shared(|memory, space| assert_eq!(memory.read(space, 13, WORD, Thread(0)), 0)), "past the end");
    }
}
