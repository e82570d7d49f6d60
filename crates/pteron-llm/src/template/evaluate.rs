//! Evaluates expressions.

use std::sync::Arc;

use super::ast::{Arguments, Comparison, Expr, Operator, Postfix};
use super::budget::MAX_RANGE;
use super::builtin::{Given, filter, method, test};
use super::date;
use super::fault::{Fault, failed};
use super::operators::{compare, operate, slice};
use super::render::Renderer;
use super::value::{Function, Loop, Value};

/// Keyword arguments.
type Named = Vec<(Arc<str>, Value)>;

impl<'t> Renderer<'t> {
    /// The value of an expression.
    pub(super) fn evaluate(&mut self, expr: &'t Expr) -> Result<Value, Fault> {
        match expr {
            Expr::Constant(value) => {
                self.budget.step(1)?;
                return Ok(value.clone());
            }
            Expr::Name(name) => {
                self.budget.step(1)?;
                return Ok(self.name(name));
            }
            _ => {}
        }
        self.budget.enter()?;
        let value = match expr {
            Expr::Constant(_) | Expr::Name(_) => Ok(Value::Undefined),
            Expr::List(items) => self.list(items),
            Expr::Dict(entries) => self.dict(entries),
            Expr::Postfix(value, list) => self.all_postfix(value, list),
            Expr::Negative(count, value) => self.negative(*count, value),
            Expr::Not(count, value) => {
                let value = self.evaluate(value)?.is_true();
                Ok(Value::Bool(value != (count % 2 == 1)))
            }
            Expr::Chain(first, others) => self.chain(first, others),
            Expr::Compare(first, others) => self.compare_all(first, others),
            Expr::All(all) => self.first_that(all, false),
            Expr::Any(all) => self.first_that(all, true),
            Expr::Choice(choice) => {
                let (condition, value, otherwise) = &**choice;
                match (self.evaluate(condition)?.is_true(), otherwise) {
                    (true, _) => self.evaluate(value),
                    (false, Some(otherwise)) => self.evaluate(otherwise),
                    (false, None) => Ok(Value::Undefined),
                }
            }
        }?;
        self.budget.leave();
        Ok(value)
    }

    fn name(&self, name: &str) -> Value {
        match (self.lookup(name), name) {
            (Value::Undefined, "dict") => Value::Function(Function::Dict),
            (Value::Undefined, "namespace") => Value::Function(Function::Namespace),
            (Value::Undefined, "raise_exception") => Value::Function(Function::RaiseException),
            (Value::Undefined, "range") => Value::Function(Function::Range),
            (Value::Undefined, "strftime_now") => Value::Function(Function::StrftimeNow),
            (value, _) => value,
        }
    }

    fn list(&mut self, items: &'t [Expr]) -> Result<Value, Fault> {
        let items = items.iter().map(|item| self.evaluate(item)).collect::<Result<_, _>>()?;
        Value::list(items, &mut self.budget)
    }

    fn dict(&mut self, entries: &'t [(Expr, Expr)]) -> Result<Value, Fault> {
        let mut values = Vec::new();
        for (key, value) in entries {
            values.push((self.evaluate(key)?, self.evaluate(value)?));
        }
        Value::dict(values, &mut self.budget)
    }

    fn negative(&mut self, count: usize, value: &'t Expr) -> Result<Value, Fault> {
        let sign = if count % 2 == 1 { -1 } else { 1 };
        match self.evaluate(value)? {
            Value::Float(value) => Ok(Value::Float(if sign < 0 { -value } else { value })),
            value => match value.as_int().and_then(|value| value.checked_mul(sign)) {
                Some(value) => Ok(Value::Int(value)),
                None => failed(format!("{} cannot be made negative", value.kind())),
            },
        }
    }

    fn chain(&mut self, first: &'t Expr, others: &'t [(Operator, Expr)]) -> Result<Value, Fault> {
        let mut value = self.evaluate(first)?;
        for (operator, other) in others {
            let other = self.evaluate(other)?;
            value = operate(*operator, &value, &other, &mut self.budget)?;
        }
        Ok(value)
    }

    fn compare_all(&mut self, first: &'t Expr, others: &'t [(Comparison, Expr)]) -> Result<Value, Fault> {
        let mut left = self.evaluate(first)?;
        for (comparison, other) in others {
            let right = self.evaluate(other)?;
            if !compare(*comparison, &left, &right, &mut self.budget)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    /// The first value that is true, or is not; else the last.
    fn first_that(&mut self, all: &'t [Expr], wanted: bool) -> Result<Value, Fault> {
        let mut value = Value::Undefined;
        for expr in all {
            value = self.evaluate(expr)?;
            if value.is_true() == wanted {
                break;
            }
        }
        Ok(value)
    }

    fn all_postfix(&mut self, value: &'t Expr, list: &'t [Postfix]) -> Result<Value, Fault> {
        let mut value = self.evaluate(value)?;
        for postfix in list {
            value = self.postfix(value, postfix)?;
        }
        Ok(value)
    }

    /// Applies a postfix operation.
    pub(super) fn postfix(&mut self, value: Value, postfix: &'t Postfix) -> Result<Value, Fault> {
        self.budget.step(1)?;
        match postfix {
            Postfix::Attribute(name) => self.attribute(&value, name),
            Postfix::Item(index) => {
                let index = self.evaluate(index)?;
                self.item(&value, &index)
            }
            Postfix::Slice(parts) => {
                let mut values = [Value::None, Value::None, Value::None];
                for (value, part) in values.iter_mut().zip(&**parts) {
                    if let Some(part) = part {
                        *value = self.evaluate(part)?;
                    }
                }
                slice(&value, &values, &mut self.budget)
            }
            Postfix::Call(arguments) => {
                let (positional, named) = self.arguments(arguments)?;
                self.call(&value, positional, named)
            }
            Postfix::Method(name, arguments) => {
                let (positional, named) = self.arguments(arguments)?;
                self.method(&value, name, positional, named)
            }
            Postfix::Filter(name, arguments) => {
                let (positional, named) = self.arguments(arguments)?;
                filter(self, name, value, &mut Given::new(positional, named))
            }
            Postfix::Test { name, arguments, negated } => {
                let (positional, named) = self.arguments(arguments)?;
                let holds = test(self, name, &value, &mut Given::new(positional, named))?;
                Ok(Value::Bool(holds != *negated))
            }
        }
    }

    fn arguments(&mut self, arguments: &'t Arguments) -> Result<(Vec<Value>, Named), Fault> {
        let positional = arguments.positional.iter().map(|expr| self.evaluate(expr)).collect::<Result<_, _>>()?;
        let mut named = Vec::new();
        for (name, expr) in &arguments.named {
            named.push((Arc::clone(name), self.evaluate(expr)?));
        }
        Ok((positional, named))
    }

    /// The attribute of a value, or the item of that name.
    pub(super) fn attribute(&mut self, value: &Value, name: &str) -> Result<Value, Fault> {
        match value {
            Value::Undefined => failed(format!("an undefined value has no attribute {name:?}")),
            Value::Namespace(index) => {
                let value = self.namespaces.get(*index).and_then(|namespace| namespace.get(name));
                Ok(value.cloned().unwrap_or(Value::Undefined))
            }
            Value::Loop(state) => Ok(loop_attribute(state, name)),
            _ => Ok(value.get(&Value::Text(name.into()), &mut self.budget)?.unwrap_or(Value::Undefined)),
        }
    }

    /// An item of a value, by its index or its key.
    pub(super) fn item(&mut self, value: &Value, index: &Value) -> Result<Value, Fault> {
        let place = |len: usize| {
            let index = index.as_int()?;
            let from_end = index.checked_add(i64::try_from(len).ok()?)?;
            usize::try_from(if index < 0 { from_end } else { index }).ok()
        };
        let item = match value {
            Value::Undefined => return failed("an undefined value has no items"),
            Value::List(_) => {
                let items = value.as_list().unwrap_or_default();
                place(items.len()).and_then(|place| items.get(place)).cloned()
            }
            Value::Text(text) => {
                self.budget.scan(text.len())?;
                let character = place(text.chars().count()).and_then(|place| text.chars().nth(place));
                character.map(|character| Value::Text(character.encode_utf8(&mut [0; 4]).into()))
            }
            Value::Dict(_) => value.get(index, &mut self.budget)?,
            _ => match index.as_text() {
                Some(name) => Some(self.attribute(value, name)?),
                None => None,
            },
        };
        Ok(item.unwrap_or(Value::Undefined))
    }

    /// Calls a value.
    pub(super) fn call(
        &mut self,
        value: &Value,
        positional: Vec<Value>,
        named: Vec<(Arc<str>, Value)>,
    ) -> Result<Value, Fault> {
        match value {
            Value::Macro(index) => self.call_macro(*index, positional, named),
            Value::Function(function) => self.call_function(*function, positional, named),
            Value::Loop(state) => match positional.as_slice() {
                [items] => self.run_loop_again(state, items),
                _ => failed("loop takes the items to go through"),
            },
            _ => failed(format!("{} cannot be called", value.kind())),
        }
    }

    fn method(
        &mut self,
        value: &Value,
        name: &str,
        positional: Vec<Value>,
        named: Vec<(Arc<str>, Value)>,
    ) -> Result<Value, Fault> {
        match value {
            Value::Namespace(_) => {
                let function = self.attribute(value, name)?;
                self.call(&function, positional, named)
            }
            Value::Loop(state) if name == "cycle" && !positional.is_empty() => {
                Ok(positional.get(state.index % positional.len()).cloned().unwrap_or(Value::Undefined))
            }
            _ => method(self, value, name, &mut Given::new(positional, named)),
        }
    }

    fn call_function(
        &mut self,
        function: Function,
        positional: Vec<Value>,
        named: Vec<(Arc<str>, Value)>,
    ) -> Result<Value, Fault> {
        match function {
            Function::RaiseException => {
                let message = positional.first().cloned().unwrap_or(Value::Undefined).to_text(&mut self.budget)?;
                Err(Fault::Raised(message.as_ref().to_owned()))
            }
            Function::Range => self.range(&positional),
            Function::StrftimeNow => {
                let Some(format) = positional.first().and_then(Value::as_text) else {
                    return failed("strftime_now takes a format");
                };
                let Some(now) = self.now else { return failed("it shows a date, and none was given") };
                // No directive gives more than nine characters for its two.
                self.budget.allocate(format.len().saturating_mul(8))?;
                match date::strftime(now, format) {
                    Ok(date) => Ok(Value::Text(date.into())),
                    Err(reason) => failed(reason),
                }
            }
            Function::Dict | Function::Namespace => {
                let mut entries: Vec<(Value, Value)> = Vec::new();
                if let Some(given) = positional.first() {
                    let Some(given) = given.as_dict() else { return failed("only a dictionary can be copied") };
                    self.budget.allocate(64 * given.len())?;
                    entries.extend(given.iter().cloned());
                }
                entries.extend(named.into_iter().map(|(name, value)| (Value::Text(name), value)));
                if function == Function::Dict {
                    return Value::dict(entries, &mut self.budget);
                }
                self.budget.allocate(128 + 64 * entries.len())?;
                let text = |(name, value)| if let Value::Text(name) = name { Some((name, value)) } else { None };
                self.namespaces.push(entries.into_iter().filter_map(text).collect());
                Ok(Value::Namespace(self.namespaces.len() - 1))
            }
        }
    }

    fn range(&mut self, arguments: &[Value]) -> Result<Value, Fault> {
        let numbers: Option<Vec<i64>> = arguments.iter().map(Value::as_int).collect();
        let (start, stop, step) = match numbers.as_deref() {
            Some(&[stop]) => (0, stop, 1),
            Some(&[start, stop]) => (start, stop, 1),
            Some(&[start, stop, step]) if step != 0 => (start, stop, step),
            _ => return failed("range takes one to three numbers, and its step is not 0"),
        };
        let numbers = std::iter::successors(Some(start), |number| number.checked_add(step));
        let mut numbers = numbers.take_while(|number| if step > 0 { *number < stop } else { *number > stop });
        let items: Vec<Value> = numbers.by_ref().take(MAX_RANGE).map(Value::Int).collect();
        if numbers.next().is_some() {
            return failed(format!("range gives more than {MAX_RANGE} numbers"));
        }
        Value::list(items, &mut self.budget)
    }
}

fn loop_attribute(state: &Loop, name: &str) -> Value {
    let number = |value: usize| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
    match name {
        "index" => number(state.index + 1),
        "index0" => number(state.index),
        "revindex" => number(state.length - state.index),
        "revindex0" => number(state.length - state.index - 1),
        "first" => Value::Bool(state.index == 0),
        "last" => Value::Bool(state.index + 1 == state.length),
        "length" => number(state.length),
        "depth" => number(state.depth + 1),
        "depth0" => number(state.depth),
        "previtem" => state.previous.clone(),
        "nextitem" => state.next.clone(),
        _ => Value::Undefined,
    }
}
