//! Execution of statements by all threads of a workgroup at once: where they diverge, those on the other way wait.

use std::collections::HashMap;

use naga::valid::{FunctionInfo, ModuleInfo};
use naga::{
    AddressSpace, Barrier, Binding, Block, BuiltIn, Expression, Function, GatherMode, GlobalVariable, Handle, Module,
    Statement, SwitchCase, SwitchValue,
};

use super::memory::{Memory, Space, Who};
use super::values::{Column, Mask, Pointer, Root, Types, Value};

/// A workgroup that runs a kernel.
#[derive(Debug)]
pub(super) struct Machine<'m, 'b> {
    pub(super) module: &'m Module,
    pub(super) types: Types<'m>,
    info: &'m ModuleInfo,
    pub(super) memory: Memory<'b>,
    /// The variables that each thread has for itself.
    private: HashMap<Handle<GlobalVariable>, Value>,
    pub(super) threads: usize,
    pub(super) lanes: usize,
}

/// A call of a function.
#[derive(Debug)]
pub(super) struct Frame<'m> {
    pub(super) function: &'m Function,
    pub(super) info: &'m FunctionInfo,
    pub(super) arguments: Vec<Value>,
    /// The expressions that were evaluated.
    pub(super) values: Vec<Option<Value>>,
    locals: Vec<Value>,
    returned: Option<Value>,
    /// Loops and switches that threads are in.
    exits: Vec<Exits>,
}

/// The threads that have left a loop or a switch, or this turn of a loop.
#[derive(Debug)]
struct Exits {
    is_loop: bool,
    broken: Mask,
    continued: Mask,
}

impl<'m, 'b> Machine<'m, 'b> {
    /// Runs one workgroup. Buffers come in the order of bindings.
    pub(super) fn run(
        (module, info): (&'m Module, &'m ModuleInfo),
        lanes: usize,
        [group, groups]: [[u32; 3]; 2],
        buffers: &'b mut [Vec<u8>],
    ) {
        let entry = &module.entry_points[0];
        let threads = entry.workgroup_size[0] as usize;
        assert_eq!((entry.workgroup_size[1..].iter().product::<u32>(), threads % lanes), (1, 0), "whole subgroups in x");
        let memory = Memory::new(buffers, lanes, threads / lanes);
        let types = Types(&module.types);
        let mut machine = Self { module, types, info, memory, private: HashMap::new(), threads, lanes };
        for (handle, variable) in module.global_variables.iter() {
            match variable.space {
                AddressSpace::WorkGroup => {
                    let name = variable.name.as_deref().unwrap_or_default();
                    let bytes = types.inner(variable.ty).size(module.to_ctx());
                    machine.memory.share(handle, name, bytes);
                }
                AddressSpace::Private => {
                    assert!(variable.init.is_none(), "a private variable with a value");
                    machine.private.insert(handle, machine.zero(types.inner(variable.ty)));
                }
                _ => {}
            }
        }
        let builtin = |argument: &naga::FunctionArgument| match argument.binding {
            Some(Binding::BuiltIn(builtin)) => machine.builtin(builtin, group, groups),
            ref other => panic!("an argument that is {other:?}"),
        };
        let arguments = entry.function.arguments.iter().map(builtin).collect();
        let everyone = machine.everyone();
        machine.call(&entry.function, info.get_entry_point(0), arguments, &everyone);
    }

    pub(super) fn everyone(&self) -> Mask {
        Mask(vec![true; self.threads])
    }

    pub(super) fn subgroups(&self) -> usize {
        self.threads / self.lanes
    }

    fn builtin(&self, builtin: BuiltIn, group: [u32; 3], groups: [u32; 3]) -> Value {
        let threads = || 0..u32::try_from(self.threads).unwrap();
        let lanes = u32::try_from(self.lanes).unwrap();
        let one = |column| Value::Scalars(vec![column]);
        match builtin {
            BuiltIn::WorkGroupId => Value::Scalars(group.map(Column::Same).to_vec()),
            BuiltIn::NumWorkGroups => Value::Scalars(groups.map(Column::Same).to_vec()),
            BuiltIn::LocalInvocationIndex => one(Column::each(threads().collect())),
            BuiltIn::SubgroupId => one(Column::each(threads().map(|thread| thread / lanes).collect())),
            BuiltIn::SubgroupInvocationId => one(Column::each(threads().map(|thread| thread % lanes).collect())),
            BuiltIn::SubgroupSize => one(Column::Same(lanes)),
            BuiltIn::NumSubgroups => one(Column::Same(threads().end / lanes)),
            other => panic!("{other:?}"),
        }
    }

    /// Whether a thread has a variable for itself.
    pub(super) fn is_private(&self, root: Root) -> bool {
        match root {
            Root::Local(_) => true,
            Root::Global(variable) => self.private.contains_key(&variable),
        }
    }

    pub(super) fn private<'v>(&'v self, frame: &'v Frame<'m>, root: Root) -> Option<&'v Value> {
        match root {
            Root::Local(variable) => Some(&frame.locals[variable.index()]),
            Root::Global(variable) => self.private.get(&variable),
        }
    }

    pub(super) fn space(&self, root: Root) -> Space {
        let Root::Global(handle) = root else { panic!("{root:?} is in no space") };
        let variable = &self.module.global_variables[handle];
        match (variable.space, &variable.binding) {
            (AddressSpace::Storage { .. } | AddressSpace::Uniform, Some(binding)) => Space::Buffer(binding.binding as usize),
            (AddressSpace::WorkGroup, _) => Space::Workgroup(handle),
            other => panic!("{other:?}"),
        }
    }

    fn call(&mut self, function: &'m Function, info: &'m FunctionInfo, arguments: Vec<Value>, mask: &Mask) -> Option<Value> {
        let values = vec![None; function.expressions.len()];
        let mut frame = Frame { function, info, arguments, values, locals: Vec::new(), returned: None, exits: Vec::new() };
        for (_, variable) in function.local_variables.iter() {
            let value = match variable.init {
                Some(init) => self.constant_in(&function.expressions, init),
                None => self.zero(self.types.inner(variable.ty)),
            };
            frame.locals.push(value);
        }
        self.block(&mut frame, &function.body, &mut mask.clone());
        frame.returned
    }

    /// Executes a block. Afterwards the mask has the threads that reached its end.
    fn block(&mut self, frame: &mut Frame<'m>, block: &'m Block, mask: &mut Mask) {
        for statement in block {
            if !mask.any() {
                return;
            }
            self.statement(frame, statement, mask);
        }
    }

    fn statement(&mut self, frame: &mut Frame<'m>, statement: &'m Statement, mask: &mut Mask) {
        match *statement {
            Statement::Emit(ref range) => {
                for expression in range.clone() {
                    frame.values[expression.index()] = Some(self.evaluate(frame, expression, mask));
                }
            }
            Statement::Block(ref block) => self.block(frame, block, mask),
            Statement::If { condition, ref accept, ref reject } => {
                let condition = self.column(frame, condition);
                let [mut holds, mut fails] = [true, false].map(|wanted| mask.with(&condition, wanted));
                self.block(frame, accept, &mut holds);
                self.block(frame, reject, &mut fails);
                holds.add(&fails);
                *mask = holds;
            }
            Statement::Switch { selector, ref cases } => self.switch(frame, selector, cases, mask),
            Statement::Loop { ref body, ref continuing, break_if } => {
                self.turns(frame, [body, continuing], break_if, mask);
            }
            Statement::Break => frame.exits.last_mut().unwrap().broken.add(&mask.take()),
            Statement::Continue => {
                let inner = frame.exits.iter_mut().rev().find(|exits| exits.is_loop);
                inner.unwrap().continued.add(&mask.take());
            }
            Statement::Return { value } => {
                if let Some(value) = value.map(|value| self.value(frame, value)) {
                    match &mut frame.returned {
                        Some(returned) => returned.assign(&value, mask),
                        None => frame.returned = Some(value),
                    }
                }
                mask.take();
            }
            Statement::ControlBarrier(barrier) => self.barrier(barrier, mask),
            Statement::Store { pointer, value } => self.store(frame, pointer, value, mask),
            Statement::Call { function, ref arguments, result } => {
                let arguments = arguments.iter().map(|argument| self.value(frame, *argument)).collect();
                let returned = self.call(&self.module.functions[function], &self.info[function], arguments, mask);
                if let Some(result) = result {
                    frame.values[result.index()] = returned;
                }
            }
            Statement::SubgroupGather { mode: GatherMode::ShuffleXor(distance), argument, result } => {
                frame.values[result.index()] = Some(self.exchanged(frame, argument, distance, mask));
            }
            Statement::CooperativeStore { target, ref data } => self.store_matrix(frame, target, data, mask),
            ref other => panic!("{other:?}"),
        }
    }

    fn switch(&mut self, frame: &mut Frame<'m>, selector: Handle<Expression>, cases: &'m [SwitchCase], mask: &mut Mask) {
        let selector = self.column(frame, selector);
        let equals = |value: u32| selector.map(|selected| (selected == value).into());
        let mut left = mask.clone();
        let chosen: Vec<Option<Mask>> = cases
            .iter()
            .map(|case| match case.value {
                SwitchValue::Default => None,
                SwitchValue::U32(value) => Some(equals(value)),
                SwitchValue::I32(value) => Some(equals(value.cast_unsigned())),
            })
            .map(|equal| {
                equal.map(|equal| {
                    let chosen = left.with(&equal, true);
                    left = left.with(&equal, false);
                    chosen
                })
            })
            .collect();
        mask.take();
        let [mut ended, mut falling] = [mask.clone(), mask.clone()];
        frame.exits.push(Exits { is_loop: false, broken: ended.clone(), continued: ended.clone() });
        for (case, chosen) in cases.iter().zip(chosen) {
            falling.add(chosen.as_ref().unwrap_or(&left));
            self.block(frame, &case.body, &mut falling);
            if !case.fall_through {
                ended.add(&falling.take());
            }
        }
        ended.add(&falling);
        ended.add(&frame.exits.pop().unwrap().broken);
        *mask = ended;
    }

    fn turns(
        &mut self,
        frame: &mut Frame<'m>,
        [body, continuing]: [&'m Block; 2],
        break_if: Option<Handle<Expression>>,
        mask: &mut Mask,
    ) {
        let mut running = mask.take();
        frame.exits.push(Exits { is_loop: true, broken: mask.clone(), continued: mask.clone() });
        while running.any() {
            self.block(frame, body, &mut running);
            running.add(&frame.exits.last_mut().unwrap().continued.take());
            self.block(frame, continuing, &mut running);
            if let Some(condition) = break_if.filter(|_| running.any()) {
                let condition = self.column(frame, condition);
                frame.exits.last_mut().unwrap().broken.add(&running.with(&condition, true));
                running = running.with(&condition, false);
            }
        }
        *mask = frame.exits.pop().unwrap().broken;
    }

    fn barrier(&mut self, barrier: Barrier, mask: &Mask) {
        if barrier.contains(Barrier::SUB_GROUP) {
            self.memory.subgroup_barrier(&mask.subgroups(self.subgroups()));
        } else {
            assert!(mask.all(), "a barrier that some threads do not reach");
            self.memory.workgroup_barrier();
        }
    }

    fn store(&mut self, frame: &mut Frame<'m>, pointer: Handle<Expression>, value: Handle<Expression>, mask: &Mask) {
        let inner = self.types.pointee(&self.type_of(frame, pointer));
        let Pointer { root, offset } = self.value(frame, pointer).pointer().clone();
        let value = self.value(frame, value);
        if self.is_private(root) {
            let variable = match root {
                Root::Local(variable) => &mut frame.locals[variable.index()],
                Root::Global(variable) => self.private.get_mut(&variable).unwrap(),
            };
            match (variable, &offset) {
                (Value::Scalars(columns), Column::Same(offset)) => {
                    let old = columns[*offset as usize..].iter_mut();
                    old.zip(value.scalars()).for_each(|(old, new)| old.assign(new, mask));
                }
                (Value::Scalars(columns), offset) => {
                    for (part, new) in value.scalars().iter().enumerate() {
                        for thread in mask.active() {
                            let mut only = Mask(vec![false; mask.0.len()]);
                            only.0[thread] = true;
                            columns[offset.get(thread) as usize + part].assign(new, &only);
                        }
                    }
                }
                (variable, _) => variable.assign(&value, mask),
            }
            return;
        }
        let space = self.space(root);
        for ((at, scalar), column) in self.types.scalars(&inner).into_iter().zip(value.scalars()) {
            for thread in mask.active() {
                let at = offset.get(thread) as usize + at as usize;
                self.memory.write(space, at, scalar, column.get(thread), Who::Thread(thread));
            }
        }
    }

    /// The value of the lane at a distance.
    fn exchanged(
        &self,
        frame: &Frame<'m>,
        argument: Handle<Expression>,
        distance: Handle<Expression>,
        mask: &Mask,
    ) -> Value {
        let distance = self.column(frame, distance);
        let of = |thread: usize, column: &Column| {
            let other = thread ^ distance.get(thread) as usize;
            assert!(other / self.lanes == thread / self.lanes && mask.0[other], "a lane exchanges with one that does not");
            column.get(other)
        };
        let all = |column: &Column| {
            Column::each((0..self.threads).map(|thread| if mask.0[thread] { of(thread, column) } else { 0 }).collect())
        };
        Value::Scalars(self.value(frame, argument).scalars().iter().map(all).collect())
    }
}
