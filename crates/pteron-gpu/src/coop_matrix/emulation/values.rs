//! Values of all threads of a workgroup, and the layouts of their types.

use std::rc::Rc;

use naga::{ArraySize, GlobalVariable, Handle, LocalVariable, Scalar, Type, TypeInner, UniqueArena};

/// A scalar of every thread, as 32 bits: floats of 16 bits are widened, booleans are 0 or 1.
#[derive(Clone, Debug)]
pub(super) enum Column {
    Same(u32),
    Each(Rc<Vec<u32>>),
}

impl Column {
    pub(super) fn each(values: Vec<u32>) -> Self {
        Self::Each(Rc::new(values))
    }

    pub(super) fn get(&self, thread: usize) -> u32 {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values[thread],
        }
    }

    /// Computes a scalar from those of two others.
    pub(super) fn zip(&self, other: &Self, apply: impl Fn(u32, u32) -> u32) -> Self {
        match (self, other) {
            (Self::Same(a), Self::Same(b)) => Self::Same(apply(*a, *b)),
            (Self::Each(a), Self::Each(b)) => Self::each(a.iter().zip(b.iter()).map(|(a, b)| apply(*a, *b)).collect()),
            (Self::Each(a), Self::Same(b)) => Self::each(a.iter().map(|a| apply(*a, *b)).collect()),
            (Self::Same(a), Self::Each(b)) => Self::each(b.iter().map(|b| apply(*a, *b)).collect()),
        }
    }

    pub(super) fn map(&self, apply: impl Fn(u32) -> u32) -> Self {
        match self {
            Self::Same(value) => Self::Same(apply(*value)),
            Self::Each(values) => Self::each(values.iter().map(|value| apply(*value)).collect()),
        }
    }

    /// Replaces the values of the active threads.
    pub(super) fn assign(&mut self, value: &Self, mask: &Mask) {
        if mask.all() {
            *self = value.clone();
            return;
        }
        let mixed = (0..mask.0.len()).map(|thread| if mask.0[thread] { value } else { &*self }.get(thread)).collect();
        *self = Self::each(mixed);
    }
}

/// A matrix of a subgroup, row by row.
pub(super) type Matrix = Rc<Vec<f32>>;

/// A variable. Offsets in those that a thread has for itself count scalars, in others bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    Local(Handle<LocalVariable>),
    Global(Handle<GlobalVariable>),
}

#[derive(Clone, Debug)]
pub(super) struct Pointer {
    pub(super) root: Root,
    pub(super) offset: Column,
}

/// The values of an expression.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// The scalars of vectors, arrays and structs one after another.
    Scalars(Vec<Column>),
    /// A matrix of each subgroup.
    Matrices(Vec<Matrix>),
    Pointer(Pointer),
}

impl Value {
    pub(super) fn scalars(&self) -> &[Column] {
        match self {
            Self::Scalars(columns) => columns,
            _ => panic!("{self:?} has no scalars"),
        }
    }

    pub(super) fn scalar(&self) -> &Column {
        assert_eq!(self.scalars().len(), 1, "a scalar");
        &self.scalars()[0]
    }

    pub(super) fn matrices(&self) -> &[Matrix] {
        match self {
            Self::Matrices(matrices) => matrices,
            _ => panic!("{self:?} is no matrix"),
        }
    }

    pub(super) fn pointer(&self) -> &Pointer {
        match self {
            Self::Pointer(pointer) => pointer,
            _ => panic!("{self:?} is no pointer"),
        }
    }

    /// Replaces the values of the active threads.
    pub(super) fn assign(&mut self, value: &Self, mask: &Mask) {
        match (self, value) {
            (Self::Scalars(old), Self::Scalars(new)) => {
                old.iter_mut().zip(new).for_each(|(old, new)| old.assign(new, mask));
            }
            (Self::Matrices(old), Self::Matrices(new)) => {
                let active = mask.subgroups(old.len());
                for (index, old) in old.iter_mut().enumerate().filter(|(index, _)| active[*index]) {
                    old.clone_from(&new[index]);
                }
            }
            (old, new) => panic!("{new:?} is stored to {old:?}"),
        }
    }
}

/// Which threads are active.
#[derive(Clone, Debug)]
pub(super) struct Mask(pub(super) Vec<bool>);

impl Mask {
    pub(super) fn all(&self) -> bool {
        !self.0.contains(&false)
    }

    pub(super) fn any(&self) -> bool {
        self.0.contains(&true)
    }

    pub(super) fn active(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().filter_map(|(thread, active)| active.then_some(thread))
    }

    /// Those of the active threads whose condition holds, or does not.
    pub(super) fn with(&self, condition: &Column, holds: bool) -> Self {
        let both = |(thread, active): (usize, &bool)| *active && (condition.get(thread) != 0) == holds;
        Self(self.0.iter().enumerate().map(both).collect())
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(active, other)| *active |= other);
    }

    pub(super) fn take(&mut self) -> Self {
        let none = Self(vec![false; self.0.len()]);
        std::mem::replace(self, none)
    }

    /// Which of so many subgroups are active. What a subgroup does together, all of its threads have to do.
    pub(super) fn subgroups(&self, count: usize) -> Vec<bool> {
        let of = |lanes: &[bool]| {
            assert!(lanes.iter().all(|lane| *lane == lanes[0]), "threads of a subgroup diverge where it acts as one");
            lanes[0]
        };
        self.0.chunks_exact(self.0.len() / count).map(of).collect()
    }
}

/// The types of a module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types<'a>(pub(super) &'a UniqueArena<Type>);

impl<'a> Types<'a> {
    pub(super) fn inner(self, ty: Handle<Type>) -> &'a TypeInner {
        &self.0[ty].inner
    }

    /// The scalars of a type, and their offsets in bytes.
    pub(super) fn scalars(self, inner: &TypeInner) -> Vec<(u32, Scalar)> {
        let moved = |by: u32, ty| self.scalars(self.inner(ty)).into_iter().map(move |(at, scalar)| (by + at, scalar));
        match *inner {
            TypeInner::Scalar(scalar) => vec![(0, scalar)],
            TypeInner::Vector { size, scalar } => (0..size as u32).map(|i| (i * u32::from(scalar.width), scalar)).collect(),
            TypeInner::Array { base, size: ArraySize::Constant(count), stride } => {
                (0..count.get()).flat_map(|i| moved(i * stride, base)).collect()
            }
            TypeInner::Struct { ref members, .. } => {
                members.iter().flat_map(|member| moved(member.offset, member.ty)).collect()
            }
            ref other => panic!("{other:?} has no scalars that can be listed"),
        }
    }

    /// The bytes and the scalars before an element of a type.
    pub(super) fn element(self, inner: &TypeInner, index: u32) -> (u32, u32) {
        let count = |ty| u32::try_from(self.scalars(self.inner(ty)).len()).unwrap();
        match *inner {
            TypeInner::Vector { scalar, .. } => (index * u32::from(scalar.width), index),
            TypeInner::Array { base, stride, .. } => (index * stride, index * count(base)),
            TypeInner::Struct { ref members, .. } => {
                (members[index as usize].offset, members[..index as usize].iter().map(|member| count(member.ty)).sum())
            }
            ref other => panic!("{other:?} has no elements"),
        }
    }

    /// The type that a pointer points to; others are themselves.
    pub(super) fn pointee(self, inner: &TypeInner) -> TypeInner {
        match *inner {
            TypeInner::Pointer { base, .. } => self.inner(base).clone(),
            TypeInner::ValuePointer { size: Some(size), scalar, .. } => TypeInner::Vector { size, scalar },
            TypeInner::ValuePointer { size: None, scalar, .. } => TypeInner::Scalar(scalar),
            ref other => other.clone(),
        }
    }
}
