//! Evaluation of expressions.

use naga::{Expression, Handle, Literal, MathFunction, RelationalFunction, Scalar, ScalarKind, TypeInner};

use super::arithmetic;
use super::machine::{Frame, Machine};
use super::memory::Who;
use super::values::{Column, Mask, Pointer, Root, Value};

impl<'m> Machine<'m, '_> {
    /// The type of an expression.
    pub(super) fn type_of(&self, frame: &Frame<'m>, expression: Handle<Expression>) -> TypeInner {
        frame.info[expression].ty.inner_with(&self.module.types).clone()
    }

    fn scalar_of(&self, frame: &Frame<'m>, expression: Handle<Expression>) -> Scalar {
        self.type_of(frame, expression).scalar().unwrap()
    }

    /// The value of an expression that was evaluated, or is the same everywhere in a function.
    pub(super) fn value(&self, frame: &Frame<'m>, expression: Handle<Expression>) -> Value {
        match &frame.values[expression.index()] {
            Some(value) => value.clone(),
            None => self.constant(frame, expression),
        }
    }

    pub(super) fn column(&self, frame: &Frame<'m>, expression: Handle<Expression>) -> Column {
        self.value(frame, expression).scalar().clone()
    }

    fn constant(&self, frame: &Frame<'m>, expression: Handle<Expression>) -> Value {
        match frame.function.expressions[expression] {
            Expression::FunctionArgument(index) => frame.arguments[index as usize].clone(),
            Expression::GlobalVariable(variable) => {
                Value::Pointer(Pointer { root: Root::Global(variable), offset: Column::Same(0) })
            }
            Expression::LocalVariable(variable) => {
                Value::Pointer(Pointer { root: Root::Local(variable), offset: Column::Same(0) })
            }
            // naga evaluates the places of matrices where they are used.
            Expression::AccessIndex { base, index } => self.access(frame, base, &Column::Same(index), &self.everyone()),
            Expression::Access { base, index } => self.access(frame, base, &self.column(frame, index), &self.everyone()),
            _ => self.constant_in(&frame.function.expressions, expression),
        }
    }

    /// The value of a constant expression.
    pub(super) fn constant_in(&self, arena: &naga::Arena<Expression>, expression: Handle<Expression>) -> Value {
        match arena[expression] {
            Expression::Literal(literal) => Value::Scalars(vec![Column::Same(bits(literal))]),
            Expression::Constant(constant) => {
                self.constant_in(&self.module.global_expressions, self.module.constants[constant].init)
            }
            Expression::ZeroValue(ty) => self.zero(self.types.inner(ty)),
            Expression::Compose { ref components, .. } => {
                let parts = components.iter().map(|part| self.constant_in(arena, *part));
                Value::Scalars(parts.flat_map(|part| part.scalars().to_vec()).collect())
            }
            Expression::Splat { size, value } => {
                Value::Scalars(vec![self.constant_in(arena, value).scalar().clone(); size as usize])
            }
            ref other => panic!("{other:?} was not evaluated"),
        }
    }

    pub(super) fn zero(&self, inner: &TypeInner) -> Value {
        match *inner {
            TypeInner::CooperativeMatrix { columns, rows, .. } => {
                Value::Matrices(vec![vec![0.0; columns as usize * rows as usize].into(); self.subgroups()])
            }
            ref other => Value::Scalars(vec![Column::Same(0); self.types.scalars(other).len()]),
        }
    }

    /// Evaluates an expression where the program does.
    pub(super) fn evaluate(&mut self, frame: &Frame<'m>, expression: Handle<Expression>, mask: &Mask) -> Value {
        match frame.function.expressions[expression] {
            Expression::Compose { ref components, .. } => {
                let parts = components.iter().map(|part| self.value(frame, *part));
                Value::Scalars(parts.flat_map(|part| part.scalars().to_vec()).collect())
            }
            Expression::Splat { size, value } => Value::Scalars(vec![self.column(frame, value); size as usize]),
            Expression::Swizzle { size, vector, pattern } => {
                let vector = self.value(frame, vector);
                let picked = pattern[..size as usize].iter().map(|part| vector.scalars()[*part as usize].clone());
                Value::Scalars(picked.collect())
            }
            Expression::AccessIndex { base, index } => self.access(frame, base, &Column::Same(index), mask),
            Expression::Access { base, index } => {
                let index = self.column(frame, index);
                self.access(frame, base, &index, mask)
            }
            Expression::Load { pointer } => self.load(frame, pointer, mask),
            Expression::Unary { op, expr } => {
                let scalar = self.scalar_of(frame, expr);
                let value = self.value(frame, expr);
                Value::Scalars(value.scalars().iter().map(|column| arithmetic::unary(op, scalar, column)).collect())
            }
            Expression::Binary { op, left, right } => {
                let scalar = self.scalar_of(frame, left);
                let both = [left, right].map(|side| self.value(frame, side));
                elementwise(&both, |args| arithmetic::binary(op, scalar, args[0], args[1]))
            }
            Expression::Select { condition, accept, reject } => {
                let all = [condition, accept, reject].map(|part| self.value(frame, part));
                elementwise(&all, |args| self.selected(args))
            }
            Expression::As { expr, kind, convert } => {
                let from = self.scalar_of(frame, expr);
                let value = self.value(frame, expr);
                Value::Scalars(value.scalars().iter().map(|v| arithmetic::converted(v, from, kind, convert)).collect())
            }
            Expression::Math { fun, arg, arg1, arg2, arg3: None } => {
                let scalar = self.scalar_of(frame, arg);
                let args: Vec<Value> =
                    [Some(arg), arg1, arg2].into_iter().flatten().map(|arg| self.value(frame, arg)).collect();
                math(fun, scalar, &args)
            }
            Expression::Relational { fun, argument } => relational(fun, &self.value(frame, argument)),
            Expression::CooperativeLoad { rows, columns, ref data, .. } => {
                assert_eq!(rows, columns, "square matrices");
                self.load_matrix(frame, rows as usize, data, mask)
            }
            Expression::CooperativeMultiplyAdd { a, b, c } => self.multiply(frame, [a, b, c], mask),
            _ => self.constant(frame, expression),
        }
    }

    fn selected(&self, args: &[&Column]) -> Column {
        if let Column::Same(condition) = args[0] {
            return args[if *condition != 0 { 1 } else { 2 }].clone();
        }
        let pick = |thread| args[if args[0].get(thread) != 0 { 1 } else { 2 }].get(thread);
        Column::each((0..self.threads).map(pick).collect())
    }

    /// An element, or the pointer to it.
    fn access(&self, frame: &Frame<'m>, base: Handle<Expression>, index: &Column, mask: &Mask) -> Value {
        let whole = self.types.pointee(&self.type_of(frame, base));
        match self.value(frame, base) {
            Value::Pointer(Pointer { root, offset }) => {
                let private = self.is_private(root);
                let at = |index: u32| {
                    let (bytes, scalars) = self.types.element(&whole, index);
                    if private { scalars } else { bytes }
                };
                let moved = match (index, &whole) {
                    (Column::Same(index), _) => {
                        let by = at(*index);
                        offset.map(|offset| offset.wrapping_add(by))
                    }
                    // Elements are equally far from one another.
                    (index, _) => {
                        let stride = at(1);
                        offset.zip(index, |offset, index| offset.wrapping_add(index.wrapping_mul(stride)))
                    }
                };
                Value::Pointer(Pointer { root, offset: moved })
            }
            Value::Scalars(columns) => match index {
                Column::Same(index) => {
                    let [from, to] = [*index, index + 1].map(|index| self.before(&whole, index, columns.len()));
                    Value::Scalars(columns[from..to].to_vec())
                }
                Column::Each(index) => {
                    let width = self.types.element(&whole, 1).1 as usize;
                    let pick = |part: usize| {
                        let one = |thread: usize| columns[index[thread] as usize * width + part].get(thread);
                        Column::each((0..self.threads).map(|thread| if mask.0[thread] { one(thread) } else { 0 }).collect())
                    };
                    Value::Scalars((0..width).map(pick).collect())
                }
            },
            Value::Matrices(_) => panic!("elements of a cooperative matrix"),
        }
    }

    /// The scalars before an element of a value, or all of them past its end.
    fn before(&self, whole: &TypeInner, index: u32, all: usize) -> usize {
        match whole {
            TypeInner::Struct { members, .. } if index as usize == members.len() => all,
            _ => self.types.element(whole, index).1 as usize,
        }
    }

    fn load(&mut self, frame: &Frame<'m>, pointer: Handle<Expression>, mask: &Mask) -> Value {
        let inner = self.types.pointee(&self.type_of(frame, pointer));
        let Pointer { root, offset } = self.value(frame, pointer).pointer().clone();
        if let Some(variable) = self.private(frame, root) {
            if matches!(inner, TypeInner::CooperativeMatrix { .. }) {
                return variable.clone();
            }
            let columns = variable.scalars();
            let pick = |part: usize| match &offset {
                Column::Same(offset) => columns[*offset as usize + part].clone(),
                Column::Each(offset) => {
                    let one = |thread: usize| columns[offset[thread] as usize + part].get(thread);
                    Column::each((0..self.threads).map(|thread| if mask.0[thread] { one(thread) } else { 0 }).collect())
                }
            };
            return Value::Scalars((0..self.types.scalars(&inner).len()).map(pick).collect());
        }
        let space = self.space(root);
        let mut one = |at: u32, scalar: Scalar, thread: usize| {
            let at = offset.get(thread) as usize + at as usize;
            self.memory.read(space, at, scalar, Who::Thread(thread))
        };
        // Numbers that all threads read from a buffer are read once.
        let once = matches!(offset, Column::Same(_)) && space.is_buffer();
        let load = |(at, scalar): (u32, Scalar)| {
            let mut active = mask.active();
            if once {
                return Column::Same(active.next().map_or(0, |thread| one(at, scalar, thread)));
            }
            let mut values = vec![0; mask.0.len()];
            active.for_each(|thread| values[thread] = one(at, scalar, thread));
            Column::each(values)
        };
        Value::Scalars(self.types.scalars(&inner).into_iter().map(load).collect())
    }
}

fn bits(literal: Literal) -> u32 {
    match literal {
        Literal::F32(value) => value.to_bits(),
        Literal::F16(value) => value.to_f32().to_bits(),
        Literal::U32(value) => value,
        Literal::I32(value) => value.cast_unsigned(),
        Literal::Bool(value) => value.into(),
        other => panic!("{other:?}"),
    }
}

/// Applies a function to each element. Scalars among vectors are the same for each.
fn elementwise(args: &[Value], apply: impl Fn(&[&Column]) -> Column) -> Value {
    let width = args.iter().map(|arg| arg.scalars().len()).max().unwrap_or(0);
    let element = |index: usize| {
        let columns: Vec<&Column> =
            args.iter().map(|arg| arg.scalars().get(index).unwrap_or_else(|| arg.scalar())).collect();
        apply(&columns)
    };
    Value::Scalars((0..width).map(element).collect())
}

fn math(function: MathFunction, scalar: Scalar, args: &[Value]) -> Value {
    match (function, args) {
        (MathFunction::Unpack2x16float, [word]) => Value::Scalars(arithmetic::unpacked(word.scalar())),
        (MathFunction::Dot, [a, b]) => {
            let products =
                elementwise(args, |both| arithmetic::binary(naga::BinaryOperator::Multiply, scalar, both[0], both[1]));
            assert_eq!(a.scalars().len(), b.scalars().len(), "the lengths of vectors");
            let sum = products
                .scalars()
                .iter()
                .cloned()
                .reduce(|sum, product| arithmetic::binary(naga::BinaryOperator::Add, scalar, &sum, &product));
            Value::Scalars(sum.into_iter().collect())
        }
        _ => elementwise(args, |args| arithmetic::math(function, scalar, args)),
    }
}

fn relational(function: RelationalFunction, argument: &Value) -> Value {
    let columns = argument.scalars().iter().cloned();
    let reduced =
        |apply: fn(u32, u32) -> u32| Value::Scalars(columns.clone().reduce(|a, b| a.zip(&b, apply)).into_iter().collect());
    let each = |apply: fn(f32) -> bool| {
        Value::Scalars(columns.clone().map(|column| column.map(|v| apply(f32::from_bits(v)).into())).collect())
    };
    match function {
        RelationalFunction::All => reduced(|a, b| a & b),
        RelationalFunction::Any => reduced(|a, b| a | b),
        RelationalFunction::IsNan => each(f32::is_nan),
        RelationalFunction::IsInf => each(f32::is_infinite),
    }
}

/// The scalar that a pointer to scalars or vectors leads to, and how many of them are one step of a stride.
pub(super) fn stride_of(inner: &TypeInner) -> (Scalar, usize) {
    match *inner {
        TypeInner::Scalar(scalar) => (scalar, 1),
        TypeInner::Vector { size, scalar } => (scalar, size as usize),
        ref other => panic!("a matrix in {other:?}"),
    }
}

/// Whether a type is of floats, as matrices are.
pub(super) fn is_float(scalar: Scalar) -> bool {
    scalar.kind == ScalarKind::Float
}
