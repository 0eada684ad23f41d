//! The messages of ONNX, with the numbers that its format gives their fields. What an engine has no use for
//! (documentation, training, placement on several devices) is left out and skipped when it is read.
//! Bytes stay where they are in the file.

use bytes::Bytes;
use prost::{Message, Oneof};

/// A whole model.
#[derive(Clone, PartialEq, Message)]
pub struct Model {
    /// The version of the format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// What wrote it.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub producer_version: String,
    /// What it computes.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    /// The versions of operators.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
    /// Words about it.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<Entry>,
    /// Operators of its own.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<Function>,
}

/// The version of a domain's operators.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSet {
    /// Empty for ONNX' own.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A key/value pair.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    /// The word.
    #[prost(string, tag = "1")]
    pub key: String,
    /// What it says.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Nodes, in an order in which they can be computed.
#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    /// What is computed.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants, which may stand for inputs of the same name.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    /// What is given.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    /// What is wanted.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
    /// What is known of the values between.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfo>,
    /// Constants that are mostly zeros.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensor>,
}

/// An operator with its operands.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    /// Names of values; empty where an optional one is left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of values.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Its own name, if it has one.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Its parameters.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
    /// Where the operator is defined; empty for ONNX' own.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Which of several functions of the name.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// A parameter of a node. `kind` says which field holds it.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A number.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// An integer.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// A string.
    #[prost(bytes = "bytes", tag = "4")]
    pub s: Bytes,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<Tensor>,
    /// A graph.
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<Graph>>,
    /// Numbers.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Strings.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// Tensors.
    #[prost(message, repeated, tag = "10")]
    pub tensors: Vec<Tensor>,
    /// Graphs.
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<Graph>,
    /// A type.
    #[prost(message, optional, tag = "14")]
    pub tp: Option<Type>,
    /// Which of them it is; see [`AttributeKind`].
    #[prost(int32, tag = "20")]
    pub kind: i32,
    /// In a function: the function's own parameter that stands here.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    /// A tensor that is mostly zeros.
    #[prost(message, optional, tag = "22")]
    pub sparse_tensor: Option<SparseTensor>,
}

/// What an attribute holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeKind {
    /// Files of the first version do not say.
    Undefined = 0,
    /// A number.
    Float = 1,
    /// An integer.
    Int = 2,
    /// A string.
    String = 3,
    /// A tensor.
    Tensor = 4,
    /// A graph.
    Graph = 5,
    /// Numbers.
    Floats = 6,
    /// Integers.
    Ints = 7,
    /// Strings.
    Strings = 8,
    /// Tensors.
    Tensors = 9,
    /// Graphs.
    Graphs = 10,
    /// A tensor that is mostly zeros.
    SparseTensor = 11,
    /// Several of them.
    SparseTensors = 12,
    /// A type.
    Type = 13,
    /// Types.
    Types = 14,
}

/// A constant. Its elements are in one of several fields, or in another file.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    /// Its shape.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// The type of its elements; see [`crate::ElementType`].
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// `f32` and complex numbers.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Integers of up to 32 bits, halves by their bits, bools.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Strings.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_data: Vec<Bytes>,
    /// `i64`.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// Its name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Elements in row-major order, little-endian.
    #[prost(bytes = "bytes", tag = "9")]
    pub raw_data: Bytes,
    /// `f64` and wide complex numbers.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// `u32` and `u64`.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Where in another file: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<Entry>,
    /// 1 if the elements are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// A tensor by its elements that are not zero.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensor {
    /// The elements; their name is the tensor's.
    #[prost(message, optional, tag = "1")]
    pub values: Option<Tensor>,
    /// Where they are.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<Tensor>,
    /// The shape.
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

/// A value's name and type.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its type, if it is known.
    #[prost(message, optional, tag = "2")]
    pub ty: Option<Type>,
}

/// The type of a value.
#[derive(Clone, PartialEq, Message)]
pub struct Type {
    /// One of several.
    #[prost(oneof = "TypeValue", tags = "1, 4, 5, 8, 9")]
    pub value: Option<TypeValue>,
}

/// The types there are.
#[derive(Clone, PartialEq, Oneof)]
pub enum TypeValue {
    /// A tensor.
    #[prost(message, tag = "1")]
    Tensor(TensorType),
    /// Values of one type, one after another.
    #[prost(message, tag = "4")]
    Sequence(Box<ElementOf>),
    /// Values by keys.
    #[prost(message, tag = "5")]
    Map(Box<MapType>),
    /// A tensor that is mostly zeros.
    #[prost(message, tag = "8")]
    SparseTensor(TensorType),
    /// A value or none.
    #[prost(message, tag = "9")]
    Optional(Box<ElementOf>),
}

/// The type of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    /// See [`crate::ElementType`].
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// Its shape, if it is known.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// The type of what is in a sequence or an optional.
#[derive(Clone, PartialEq, Message)]
pub struct ElementOf {
    /// The type.
    #[prost(message, optional, boxed, tag = "1")]
    pub elem_type: Option<Box<Type>>,
}

/// The type of a map.
#[derive(Clone, PartialEq, Message)]
pub struct MapType {
    /// Of its keys; see [`crate::ElementType`].
    #[prost(int32, tag = "1")]
    pub key_type: i32,
    /// Of its values.
    #[prost(message, optional, boxed, tag = "2")]
    pub value_type: Option<Box<Type>>,
}

/// A shape, whose lengths may be open.
#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    /// The lengths.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// A length: a number, a name, or unknown.
#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    /// One of them.
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub value: Option<DimensionValue>,
}

/// A length: a number or a name.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum DimensionValue {
    /// A number.
    #[prost(int64, tag = "1")]
    Value(i64),
    /// Lengths of the same name are the same.
    #[prost(string, tag = "2")]
    Name(String),
}

/// An operator that a model defines by nodes.
#[derive(Clone, PartialEq, Message)]
pub struct Function {
    /// The operator.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Names of what is given.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Names of what is wanted.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Names of parameters without a default.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// What it computes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<Node>,
    /// The versions of operators that its nodes refer to.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSet>,
    /// Its domain.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Parameters with a default.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<Attribute>,
    /// Which of several functions of the name.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// A sequence of values, as test data has it.
#[derive(Clone, PartialEq, Message)]
pub struct Sequence {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it holds: 1 tensors, 3 sequences, 5 optionals.
    #[prost(int32, tag = "2")]
    pub elem_type: i32,
    /// Tensors.
    #[prost(message, repeated, tag = "3")]
    pub tensor_values: Vec<Tensor>,
    /// Sequences.
    #[prost(message, repeated, tag = "5")]
    pub sequence_values: Vec<Sequence>,
    /// Optionals.
    #[prost(message, repeated, tag = "7")]
    pub optional_values: Vec<Optional>,
}

/// A value or none, as test data has it.
#[derive(Clone, PartialEq, Message)]
pub struct Optional {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it holds: 0 none, 1 a tensor, 3 a sequence, 5 an optional.
    #[prost(int32, tag = "2")]
    pub elem_type: i32,
    /// A tensor.
    #[prost(message, optional, tag = "3")]
    pub tensor_value: Option<Tensor>,
    /// A sequence.
    #[prost(message, optional, tag = "5")]
    pub sequence_value: Option<Sequence>,
    /// An optional.
    #[prost(message, optional, boxed, tag = "7")]
    pub optional_value: Option<Box<Optional>>,
}
