//! Rules about the arguments of a delegate call.

use pteron_format::program::{Instruction, Tensor, Value, ValueId};
use pteron_format::{Problem, Program, ScalarType, write};

use crate::common::xnnpack::program;
use crate::{Fault, assert_refused, fault};

const PLACE: &str = r#"method "forward", chain 0, instruction 0"#;

type Change = fn(&mut Program<Vec<u8>>);

fn args(program: &mut Program<Vec<u8>>) -> &mut Vec<ValueId> {
    match &mut program.plans[0].chains[0].instructions[0] {
        Instruction::DelegateCall { args, .. } => args,
        other => panic!("{other:?}"),
    }
}

fn set(program: &mut Program<Vec<u8>>, id: usize, scalar: ScalarType, sizes: &[u32]) {
    program.plans[0].values[id] = Value::Tensor(Box::new(Tensor::new(scalar, sizes)));
}

#[test]
fn arguments_are_those_of_the_graph() {
    let kind = |what, found, expected| fault(PLACE, Problem::Kind { what, found, expected });
    let argument = "an argument of the delegate";
    let element = "the element type of a delegate's argument";
    let gap = "an integer, as no tensor of the graph has its place";
    let rules: [(&str, Change, Fault); 8] = [
        ("too few", |p| args(p).truncate(6), {
            fault(PLACE, Problem::Index { what: "the argument of an external value", index: 6, len: 6 })
        }),
        ("none", |p| args(p).clear(), {
            fault(PLACE, Problem::Index { what: "the argument of an external value", index: 6, len: 0 })
        }),
        ("an integer for a tensor", |p| p.plans[0].values[0] = Value::Int(1), kind(argument, "an integer", "a tensor")),
        ("a tensor for an integer", |p| set(p, 1, ScalarType::Float, &[1]), kind(argument, "a tensor", gap)),
        ("a tensor too many", |p| args(p).push(ValueId(0)), kind(argument, "a tensor", gap)),
        ("another type", |p| set(p, 0, ScalarType::Half, &[2, 64]), kind(element, "float16", "float32")),
        ("positions as floats", |p| set(p, 4, ScalarType::Float, &[1, 2, 3, 2]), kind(element, "float32", "int32 or int64")),
        ("another rank", |p| set(p, 0, ScalarType::Float, &[128]), {
            fault(PLACE, Problem::Size { what: "the rank of a delegate's argument", found: 1, expected: 2 })
        }),
    ];
    for (rule, change, expected) in rules {
        let mut program = program();
        change(&mut program);
        assert_refused(&write(&program).unwrap(), &expected, rule);
    }
}

#[test]
fn named_data_is_as_long_as_the_constant() {
    let mut program = program();
    program.segments[1].pop();
    let problem = Problem::Size { what: "the length of its named data", found: 31, expected: 32 };
    let place = r#"method "forward", graph of delegate 0, constant 1"#;
    assert_refused(&write(&program).unwrap(), &fault(place, problem), "named data");
}
