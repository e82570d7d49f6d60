use super::*;
use crate::ops::{self, OPS};

fn tensor(dtype: file::DataType, dims: &[u32], constant: Option<u32>) -> file::Value {
    file::Value::Tensor(file::Tensor {
        dtype,
        dims: dims.to_vec(),
        constant: constant.map(file::ConstantId),
        memory_object: Some(3),
        storage: file::StorageType::Texture3d,
        layout: file::MemoryLayout::ChannelsPacked,
        staging: Some(file::DataType::Float32),
    })
}

fn file_call(name: &str, args: &[u32]) -> file::Call {
    file::Call { node_id: 7, name: name.to_owned(), args: args.iter().copied().map(file::ValueId).collect() }
}

#[test]
fn internal_operators_are_marked_and_all_are_ours() {
    let all = OPS.iter().flat_map(|def| def.names.iter().map(move |name| (*def, *name)));
    let (internal, in_files): (Vec<_>, Vec<_>) = all.partition(|(def, name)| def.internal.contains(name));
    assert!(in_files.iter().all(|(_, name)| !name.starts_with("pteron.") && ops::find_in_files(name).is_some()));
    assert!(internal.iter().all(|(_, name)| name.starts_with("pteron.") && ops::find_in_files(name).is_none()));
    assert_eq!(internal.len(), OPS.iter().map(|def| def.internal.len()).sum::<usize>(), "what is internal is a name");
    assert!(internal.len() >= 4 && internal.iter().all(|(def, name)| std::ptr::eq(ops::find(name).unwrap(), *def)));
}

#[test]
fn files_cannot_call_unknown_or_internal_operators() {
    let internal = OPS.iter().flat_map(|def| def.internal.iter().copied());
    for name in internal.chain(["aten.no_such_operator.default", ""]) {
        let graph = file::Graph {
            chain: vec![file_call("aten.neg.default", &[0, 1]), file_call(name, &[0, 1])],
            values: vec![tensor(file::DataType::Float32, &[4], None); 2],
            inputs: vec![file::ValueId(0)],
            ..file::Graph::default()
        };
        let error = translate(&graph).unwrap_err();
        assert!(matches!(&error, Error::UnknownOperator { name: found, index: 1 } if found == name), "{error}");
    }
}

#[test]
fn values_calls_and_constants_keep_their_ids() {
    let graph = file::Graph {
        chain: vec![file_call("aten.relu.default", &[0, 1]), file_call("aten.add.Tensor", &[1, 2, 3, 4])],
        values: vec![
            tensor(file::DataType::Float16, &[2, 3], None),
            tensor(file::DataType::Float16, &[2, 3], None),
            tensor(file::DataType::Int64, &[1], Some(1)),
            file::Value::Double(0.5.into()),
            tensor(file::DataType::Float32, &[2, 3], None),
            file::Value::ValueList(vec![file::ValueId(2), file::ValueId(5)]),
            file::Value::SymInt(9),
        ],
        inputs: vec![file::ValueId(0)],
        outputs: vec![file::ValueId(4), file::ValueId(1)],
        constants: vec![
            file::Constant { len: 5, source: file::ConstantSource::Stored(16) },
            file::Constant { len: 8, source: file::ConstantSource::Named("key".to_owned()) },
        ],
        ..file::Graph::default()
    };
    let translated = translate(&graph).unwrap();
    let calls: Vec<_> = translated.calls.iter().map(|call| (call.name, call.args.clone(), call.origin)).collect();
    let ids = |ids: &[u32]| ids.iter().copied().map(ValueId).collect::<Vec<_>>();
    assert_eq!(calls, [("aten.relu.default", ids(&[0, 1]), 0), ("aten.add.Tensor", ids(&[1, 2, 3, 4]), 1)]);
    let half = Value::Tensor(Tensor::new(DataType::Float16, &[2, 3]));
    let constant = Tensor { constant: Some(ConstantId(1)), ..Tensor::new(DataType::Int64, &[1]) };
    let expected = [
        half.clone(),
        half,
        Value::Tensor(constant),
        Value::Double(0.5),
        Value::Tensor(Tensor::new(DataType::Float32, &[2, 3])),
        Value::ValueList(ids(&[2, 5])),
        Value::SymInt,
    ];
    assert_eq!(translated.values, expected);
    assert_eq!((translated.inputs, translated.outputs), (ids(&[0]), ids(&[4, 1])));
    let sources: Vec<_> = translated.constants.iter().map(|constant| (constant.len, constant.source.clone())).collect();
    assert_eq!(sources, [(5, ConstantSource::Stored), (8, ConstantSource::Named("key".to_owned()))]);
}
