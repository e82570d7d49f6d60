//! Runs statements.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::ast::{Body, Expr, For, Macro, Postfix, Statement, StatementKind, Target};
use super::budget::Budget;
use super::fault::{Fault, failed};
use super::value::{Loop, Value};

/// Names and their values.
type Scope = HashMap<Arc<str>, Value>;

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

/// A macro, and the scopes that it sees.
#[derive(Debug)]
pub(super) struct Callable<'t> {
    definition: &'t Macro,
    sees: Vec<Range<usize>>,
}

/// A template that runs.
#[derive(Debug)]
pub(super) struct Renderer<'t> {
    pub(super) budget: Budget,
    pub(super) now: Option<i64>,
    /// The line of the statement that runs.
    pub(super) line: usize,
    scopes: Vec<Scope>,
    /// The scopes that are seen, beside those from `start` on.
    sees: Vec<Range<usize>>,
    start: usize,
    /// Output buffers; the last one belongs to the innermost capturing block.
    outputs: Vec<String>,
    pub(super) callables: Vec<Callable<'t>>,
    pub(super) namespaces: Vec<HashMap<Arc<str>, Value>>,
    loops: Vec<&'t For>,
    /// The body of a call block, for the macro that is called next.
    caller: Option<Value>,
}

impl<'t> Renderer<'t> {
    pub(super) fn new(budget: Budget, now: Option<i64>, variables: Vec<(&str, Value)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Self {
            budget,
            now,
            line: 0,
            scopes: vec![variables, Scope::new()],
            sees: Vec::new(),
            start: 0,
            outputs: vec![String::new()],
            callables: Vec::new(),
            namespaces: Vec::new(),
            loops: Vec::new(),
            caller: None,
        }
    }

    /// The text of a template.
    pub(super) fn render(&mut self, body: &'t Body) -> Result<String, Fault> {
        self.body(body)?;
        Ok(self.outputs.pop().unwrap_or_default())
    }

    fn body(&mut self, body: &'t [Statement]) -> Result<Flow, Fault> {
        self.budget.enter()?;
        for statement in body {
            self.line = statement.line;
            let flow = self.statement(statement)?;
            if flow != Flow::Next {
                self.budget.leave();
                return Ok(flow);
            }
        }
        self.budget.leave();
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &'t Statement) -> Result<Flow, Fault> {
        self.budget.step(1)?;
        match &statement.kind {
            StatementKind::Text(text) => self.write(text)?,
            StatementKind::Emit(expr) => self.emit(expr)?,
            StatementKind::Do(expr) => {
                self.evaluate(expr)?;
            }
            StatementKind::If(branches) => return self.choose(branches),
            StatementKind::For(definition) => {
                let items = self.evaluate(&definition.items)?;
                self.run_loop(definition, &items, 0)?;
            }
            StatementKind::Set(target, expr) => {
                let value = self.evaluate(expr)?;
                self.assign(target, value)?;
            }
            StatementKind::SetBlock(target, filters, body) => {
                let value = self.captured(filters, body)?;
                self.assign(target, value)?;
            }
            StatementKind::Filter(filters, body) => {
                let value = self.captured(filters, body)?;
                self.write_value(&value)?;
            }
            StatementKind::With(values, body) => return self.with(values, body),
            StatementKind::Macro(definition) => self.define(definition)?,
            StatementKind::CallBlock(call) => self.call_block(&call.0, &call.1)?,
            StatementKind::Block(body) => return self.body(body),
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn write(&mut self, text: &str) -> Result<(), Fault> {
        self.budget.write(text.len())?;
        if let Some(output) = self.outputs.last_mut() {
            output.push_str(text);
        }
        Ok(())
    }

    fn write_value(&mut self, value: &Value) -> Result<(), Fault> {
        let text = value.to_text(&mut self.budget)?;
        self.write(&text)
    }

    fn emit(&mut self, expr: &'t Expr) -> Result<(), Fault> {
        let value = self.evaluate(expr)?;
        self.write_value(&value)
    }

    fn choose(&mut self, branches: &'t [(Option<Expr>, Body)]) -> Result<Flow, Fault> {
        for (condition, body) in branches {
            let holds = match condition {
                Some(condition) => self.evaluate(condition)?.is_true(),
                None => true,
            };
            if holds {
                return self.body(body);
            }
        }
        Ok(Flow::Next)
    }

    fn with(&mut self, values: &'t [(Target, Expr)], body: &'t Body) -> Result<Flow, Fault> {
        self.push_scope()?;
        for (target, expr) in values {
            let value = self.evaluate(expr)?;
            self.assign(target, value)?;
        }
        let flow = self.body(body)?;
        self.scopes.pop();
        Ok(flow)
    }

    /// The body's output after filters.
    fn captured(&mut self, filters: &'t [Postfix], body: &'t Body) -> Result<Value, Fault> {
        let text = self.capture(|renderer| {
            renderer.push_scope()?;
            renderer.body(body)?;
            renderer.scopes.pop();
            Ok(())
        })?;
        let mut value = Value::Text(text.into());
        for filter in filters {
            value = self.postfix(value, filter)?;
        }
        Ok(value)
    }

    fn capture(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<String, Fault> {
        self.outputs.push(String::new());
        write(self)?;
        let text = self.outputs.pop().unwrap_or_default();
        // It is copied once more where it becomes a value.
        self.budget.allocate(text.len())?;
        Ok(text)
    }

    /// Opens a scope. There are no more of them than levels, and no more names in one than the template has.
    fn push_scope(&mut self) -> Result<(), Fault> {
        self.budget.step(1)?;
        self.scopes.push(Scope::new());
        Ok(())
    }

    /// Gives a value to a name in the innermost scope.
    fn bind(&mut self, name: &Arc<str>, value: Value) -> Result<(), Fault> {
        self.budget.step(1)?;
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(Arc::clone(name), value);
        }
        Ok(())
    }

    fn assign(&mut self, target: &Target, value: Value) -> Result<(), Fault> {
        match target {
            Target::Name(name) => self.bind(name, value),
            Target::Attribute(name, attribute) => {
                let Value::Namespace(index) = self.lookup(name) else {
                    return failed(format!("{name} is no namespace, so its attributes cannot be set"));
                };
                self.budget.step(1)?;
                if let Some(namespace) = self.namespaces.get_mut(index) {
                    namespace.insert(Arc::clone(attribute), value);
                }
                Ok(())
            }
            Target::Names(names) => {
                let values = value.items(&mut self.budget)?;
                if values.len() != names.len() {
                    return failed(format!("there are {} values for {} names", values.len(), names.len()));
                }
                names.iter().zip(values).try_for_each(|(name, value)| self.bind(name, value))
            }
        }
    }

    /// The value of a name, undefined if it has none.
    pub(super) fn lookup(&self, name: &str) -> Value {
        let own = self.start..self.scopes.len();
        let ranges = std::iter::once(&own).chain(self.sees.iter().rev());
        let scopes = ranges.filter_map(|range| self.scopes.get(range.clone())).flat_map(|scopes| scopes.iter().rev());
        scopes.filter_map(|scope| scope.get(name)).next().cloned().unwrap_or(Value::Undefined)
    }

    pub(super) fn run_loop(&mut self, definition: &'t For, items: &Value, depth: usize) -> Result<(), Fault> {
        let mut items = items.items(&mut self.budget)?;
        let held = items.len().saturating_mul(32);
        if let Some(condition) = &definition.condition {
            let mut kept = Vec::new();
            for item in items {
                self.push_scope()?;
                self.assign(&definition.target, item.clone())?;
                if self.evaluate(condition)?.is_true() {
                    kept.push(item);
                }
                self.scopes.pop();
            }
            items = kept;
        }
        if items.is_empty() {
            return self.body(&definition.otherwise).map(|_| ());
        }
        self.loops.push(definition);
        for (index, item) in items.iter().enumerate() {
            let beside = |at: Option<usize>| at.and_then(|at| items.get(at)).cloned().unwrap_or(Value::Undefined);
            let state = Loop {
                index,
                length: items.len(),
                depth,
                place: self.loops.len() - 1,
                previous: beside(index.checked_sub(1)),
                next: beside(index.checked_add(1)),
            };
            self.push_scope()?;
            self.bind(&"loop".into(), Value::Loop(Arc::new(state)))?;
            self.assign(&definition.target, item.clone())?;
            let flow = self.body(&definition.body)?;
            self.scopes.pop();
            if flow == Flow::Break {
                break;
            }
        }
        self.loops.pop();
        self.budget.free(held);
        Ok(())
    }

    /// Runs a recursive loop once more, for `loop(items)` inside it.
    pub(super) fn run_loop_again(&mut self, state: &Loop, items: &Value) -> Result<Value, Fault> {
        let Some(definition) = self.loops.get(state.place).copied().filter(|definition| definition.recursive) else {
            return failed("the loop is not recursive");
        };
        let text = self.capture(|renderer| {
            renderer.budget.enter()?;
            renderer.run_loop(definition, items, state.depth + 1)?;
            renderer.budget.leave();
            Ok(())
        })?;
        Ok(Value::Text(text.into()))
    }

    fn new_callable(&mut self, definition: &'t Macro) -> Result<Value, Fault> {
        self.budget.allocate(128 + 16 * self.sees.len())?;
        let mut sees = self.sees.clone();
        sees.push(self.start..self.scopes.len());
        self.callables.push(Callable { definition, sees });
        Ok(Value::Macro(self.callables.len() - 1))
    }

    fn define(&mut self, definition: &'t Macro) -> Result<(), Fault> {
        let value = self.new_callable(definition)?;
        self.bind(&definition.name, value)
    }

    fn call_block(&mut self, caller: &'t Macro, call: &'t Expr) -> Result<(), Fault> {
        let caller = self.new_callable(caller)?;
        self.caller = Some(caller);
        let value = self.evaluate(call)?;
        self.caller = None;
        self.write_value(&value)
    }

    /// Calls a macro.
    pub(super) fn call_macro(
        &mut self,
        index: usize,
        positional: Vec<Value>,
        named: Vec<(Arc<str>, Value)>,
    ) -> Result<Value, Fault> {
        let Some(callable) = self.callables.get(index) else { return failed("there is no such macro") };
        let definition = callable.definition;
        let caller = self.caller.take();
        // A macro sees its arguments and the scopes in which it was defined.
        let sees = std::mem::replace(&mut self.sees, callable.sees.clone());
        let (start, line) = (std::mem::replace(&mut self.start, self.scopes.len()), self.line);
        let text = self.capture(|renderer| {
            renderer.budget.enter()?;
            renderer.push_scope()?;
            renderer.parameters(definition, positional, named)?;
            if let Some(caller) = caller {
                renderer.bind(&"caller".into(), caller)?;
            }
            renderer.body(&definition.body)?;
            renderer.scopes.pop();
            renderer.budget.leave();
            Ok(())
        })?;
        (self.sees, self.start, self.line) = (sees, start, line);
        Ok(Value::Text(text.into()))
    }

    fn parameters(
        &mut self,
        definition: &'t Macro,
        positional: Vec<Value>,
        named: Vec<(Arc<str>, Value)>,
    ) -> Result<(), Fault> {
        let known = |name: &str| definition.parameters.iter().position(|(parameter, _)| &**parameter == name);
        let given = positional.len();
        if given > definition.parameters.len() {
            return failed(format!("{} takes {} arguments, not {given}", definition.name, definition.parameters.len()));
        }
        if let Some((name, _)) = named.iter().find(|(name, _)| known(name).is_none_or(|index| index < given)) {
            return failed(format!("{} does not take the argument {name}, or has it already", definition.name));
        }
        self.budget.step(definition.parameters.len() * (1 + named.len()))?;
        let mut positional = positional.into_iter();
        for (name, default) in &definition.parameters {
            let value =
                positional.next().or_else(|| named.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone()));
            let value = match (value, default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.evaluate(default)?,
                (None, None) => Value::Undefined,
            };
            self.bind(name, value)?;
        }
        Ok(())
    }
}
