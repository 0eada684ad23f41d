//! Builds a plan: values are named first and get memory at the end, when it is known how long each one is needed.

use std::fmt;

use polaris_core::{DType, Layout, Shape};
use polaris_ops::elementwise::Elementwise;
use polaris_ops::fused::{Builder as Expression, Value as Term};
use polaris_ops::matmul::{Activation, Precision};
use polaris_ops::{AnyOperation, Array, Binary, Linears, MatMul, Norm, NormKind, Unary, linears};
use polaris_runtime::{Buffer, DeviceExt, DeviceRef};

use super::{Operation, Plan, Step};
use crate::{Error, Result};

/// Arrays of an arena begin at multiples of this many bytes, as OpenCL asks for sub-buffers and vectors like them.
const ALIGNMENT: usize = 256;

/// The memory of intermediate values, which all plans of an engine share: one runs at a time.
#[derive(Debug, Default)]
pub(crate) struct Arena(Option<Buffer>);

impl Arena {
    /// Bytes of it.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Buffer::bytes)
    }

    /// At least so many bytes. Plans that were made with fewer keep the memory that they have.
    fn reserve(&mut self, device: &DeviceRef, bytes: usize) -> Result<Buffer> {
        if let Some(buffer) = self.0.as_ref().filter(|buffer| buffer.bytes() >= bytes) {
            return Ok(buffer.clone());
        }
        self.0 = None;
        let buffer = device.allocate(DType::U8, bytes.max(1))?;
        Ok(self.0.insert(buffer).clone())
    }
}

/// A value of the plan: an array that is there, a result, or a view of either.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value(usize);

/// Where the elements of a value are.
enum Origin {
    /// In memory of their own: weights, inputs, the cache.
    Given(Array),
    /// In the arena.
    Made(DType),
    /// In another value.
    View(Value),
}

/// What is known about a value.
struct Entry {
    origin: Origin,
    layout: Layout,
}

/// A step whose values have no memory yet.
struct Draft {
    label: String,
    operation: Operation,
    inputs: Vec<Value>,
    output: Value,
}

/// A plan in the making.
pub(crate) struct Builder {
    device: DeviceRef,
    values: Vec<Entry>,
    steps: Vec<Draft>,
    /// What the steps that are added belong to: `blk.3`.
    scope: String,
    /// How activations are multiplied with quantised weights.
    precision: Precision,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Builder({} steps)", self.steps.len())
    }
}

impl Builder {
    pub fn new(device: &DeviceRef, precision: Precision) -> Self {
        let scope = String::new();
        Self { device: device.clone(), values: Vec::new(), steps: Vec::new(), scope, precision }
    }

    /// How activations are multiplied with quantised weights.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Names what the next steps belong to.
    pub fn enter(&mut self, scope: impl Into<String>) {
        self.scope = scope.into();
    }

    fn push(&mut self, origin: Origin, layout: Layout) -> Value {
        self.values.push(Entry { origin, layout });
        Value(self.values.len() - 1)
    }

    /// An array that is there.
    pub fn given(&mut self, array: &Array) -> Value {
        self.push(Origin::Given(array.clone()), *array.layout())
    }

    /// A dense array of the arena.
    pub fn make(&mut self, dtype: DType, dims: &[usize]) -> Result<Value> {
        let layout = Layout::contiguous(Shape::new(dims)?);
        Ok(self.push(Origin::Made(dtype), layout))
    }

    /// The shape of a value.
    pub fn dims(&self, value: Value) -> &[usize] {
        self.values[value.0].layout.shape().dims()
    }

    fn view(&mut self, of: Value, layout: Layout) -> Value {
        self.push(Origin::View(of), layout)
    }

    /// The same elements in another shape; the value must be dense.
    pub fn reshape(&mut self, value: Value, dims: &[usize]) -> Result<Value> {
        let layout = self.values[value.0].layout;
        let shape = Shape::new(dims)?;
        if !layout.is_contiguous() || shape.elements() != layout.elements() {
            let found = layout.to_string();
            return Err(Error::model(format!("{found} cannot be seen as {shape}")));
        }
        let strides = Layout::contiguous(shape);
        let layout = Layout::new(shape, strides.strides(), layout.offset())?;
        Ok(self.view(value, layout))
    }

    /// A range of one axis.
    pub fn slice(
        &mut self,
        value: Value,
        axis: usize,
        range: std::ops::Range<usize>,
    ) -> Result<Value> {
        let layout = self.values[value.0].layout.slice(axis, range, 1)?;
        Ok(self.view(value, layout))
    }

    /// Two values that lie side by side along an axis, as one.
    pub fn side_by_side(&mut self, a: Value, b: Value, axis: usize) -> Result<Option<Value>> {
        let [first, second] = [a, b].map(|value| self.values[value.0].layout);
        let mut dims = self.dims(a).to_vec();
        let others = self.dims(b);
        let fits = |(at, (a, b)): (usize, (&usize, &usize))| at == axis || a == b;
        if self.root(a) != self.root(b)
            || dims.len() != others.len()
            || !dims.iter().zip(others).enumerate().all(fits)
            || first.strides() != second.strides()
            || first.offset() + dims[axis] * first.strides()[axis] != second.offset()
        {
            return Ok(None);
        }
        dims[axis] += others[axis];
        let layout = Layout::new(Shape::new(&dims)?, first.strides(), first.offset())?;
        let root = self.root(a);
        Ok(Some(self.view(root, layout)))
    }

    /// What lies at an index of an axis, without that axis.
    pub fn select(&mut self, value: Value, axis: usize, index: usize) -> Result<Value> {
        let layout = self.values[value.0].layout.slice(axis, index..index + 1, 1)?;
        let without = |list: &[usize]| [&list[..axis], &list[axis + 1..]].concat();
        let shape = Shape::new(&without(layout.shape().dims()))?;
        let layout = Layout::new(shape, &without(layout.strides()), layout.offset())?;
        Ok(self.view(value, layout))
    }

    /// The axes in another order.
    pub fn permute(&mut self, value: Value, axes: &[usize]) -> Result<Value> {
        let layout = self.values[value.0].layout.permute(axes)?;
        Ok(self.view(value, layout))
    }

    /// The last axis, if it is cut into rows of so many elements: `[.., a * b]` as `[.., a, b]`.
    pub fn split_last(&mut self, value: Value, length: usize) -> Result<Value> {
        let layout = self.values[value.0].layout;
        let (dims, strides) = (layout.shape().dims(), layout.strides());
        let last = dims.len() - 1;
        if length == 0 || !dims[last].is_multiple_of(length) {
            let found = dims[last];
            return Err(Error::model(format!("rows of {found} are not rows of {length}")));
        }
        let dims = [&dims[..last], &[dims[last] / length, length]].concat();
        let strides = [&strides[..last], &[strides[last] * length, strides[last]]].concat();
        let layout = Layout::new(Shape::new(&dims)?, &strides, layout.offset())?;
        Ok(self.view(value, layout))
    }

    /// Adds a step that writes a value.
    pub fn emit(
        &mut self,
        label: &str,
        operation: impl AnyOperation + 'static,
        inputs: &[Value],
        output: Value,
    ) {
        self.emit_operation(label, Operation::Fixed(Box::new(operation)), inputs, output);
    }

    /// As [`Self::emit`], for any kind of operation.
    pub fn emit_operation(
        &mut self,
        label: &str,
        operation: Operation,
        inputs: &[Value],
        output: Value,
    ) {
        let label = match self.scope.as_str() {
            "" => label.to_owned(),
            scope => format!("{scope}.{label}"),
        };
        self.steps.push(Draft { label, operation, inputs: inputs.to_vec(), output });
    }

    /// `x` times the transposed weight `[rows, columns]`, plus a bias.
    pub fn linear(
        &mut self,
        label: &str,
        x: Value,
        weight: Value,
        bias: Option<Value>,
    ) -> Result<Value> {
        let rows = self.dims(weight)[0];
        let dims = self.dims(x);
        let output = [&dims[..dims.len() - 1], &[rows]].concat();
        let output = self.make(DType::F32, &output)?;
        let weight = self.permute(weight, &[1, 0])?;
        let mut product = MatMul { precision: self.precision, ..MatMul::default() };
        product.epilogue.bias = bias.map(|_| polaris_ops::matmul::Bias::PerColumn);
        let inputs: Vec<Value> = [x, weight].into_iter().chain(bias).collect();
        self.emit(label, product, &inputs, output);
        Ok(output)
    }

    /// Linear layers of `x` in one launch, side by side or gated, if the device has that: `x` times the transposed
    /// weights, `[rows, columns]` each, plus biases, of which there are none or one for each. An RMS norm that `x` is the
    /// result of becomes a part of them.
    pub fn linears(
        &mut self,
        label: &str,
        x: Value,
        weights: &[Array],
        biases: &[Array],
        gate: Option<Activation>,
    ) -> Result<Option<Value>> {
        let &[tokens, _] = self.dims(x) else { return Ok(None) };
        let all: Vec<&Array> = weights.iter().collect();
        if !linears::is_one_launch(&self.device, tokens, &all, gate.is_some()) {
            return Ok(None);
        }
        let norm = self.norm_before(x);
        let rows = weights.iter().map(|weight| weight.shape()[0]);
        let columns = if gate.is_some() { weights[0].shape()[0] } else { rows.sum() };
        let output = self.make(DType::F32, &[tokens, columns])?;
        let mut inputs = match norm {
            Some((x, weight, _)) => vec![x, weight],
            None => vec![x],
        };
        inputs.extend(weights.iter().chain(biases).map(|array| self.given(array)));
        let operation = Linears {
            norm: norm.map(|(.., epsilon)| epsilon),
            weights: weights.len(),
            bias: !biases.is_empty(),
            gate,
            precision: self.precision,
        };
        self.emit(label, operation, &inputs, output);
        Ok(Some(output))
    }

    /// The input, the weight and the epsilon of the RMS norm that a value is the result of.
    fn norm_before(&self, value: Value) -> Option<(Value, Value, f64)> {
        let at = self.steps.iter().rposition(|step| step.output == value)?;
        let step = &self.steps[at];
        let norm = step.operation.fixed::<Norm>()?;
        let &[x, weight] = &step.inputs[..] else { return None };
        // What was written since, or by the norm itself, is no longer there.
        let is_there = |step: &Draft| self.root(step.output) != self.root(x);
        let is_rms = norm.kind == NormKind::Rms && norm.has_weight;
        let is_kept = self.steps[at..].iter().all(is_there);
        (is_rms && is_kept).then_some((x, weight, norm.epsilon))
    }

    /// Whether a value is the result of a norm that may become a part of what reads it.
    pub fn is_normed(&self, value: Value) -> bool {
        self.norm_before(value).is_some()
    }

    /// `x` plus a value. If that is a product that nothing else reads, the product adds `x` itself.
    pub fn add(&mut self, label: &str, x: Value, part: Value) -> Result<Value> {
        let is_read = |step: &Draft| step.inputs.iter().any(|&input| self.root(input) == part);
        let producer = self.steps.iter().rposition(|step| step.output == part);
        let product = producer.and_then(|at| self.steps[at].operation.fixed::<MatMul>().copied());
        let (Some(at), Some(mut product)) = (producer, product) else {
            return self.binary(label, Binary::Add, x, part);
        };
        if product.epilogue.residual
            || self.dims(x) != self.dims(part)
            || self.steps.iter().any(is_read)
        {
            return self.binary(label, Binary::Add, x, part);
        }
        product.epilogue.residual = true;
        let Draft { label, mut inputs, .. } = self.steps.remove(at);
        inputs.push(x);
        let dims = self.dims(x).to_vec();
        let output = self.make(DType::F32, &dims)?;
        let operation = Operation::Fixed(Box::new(product));
        self.steps.push(Draft { label, operation, inputs, output });
        Ok(output)
    }

    /// A function of two values, of which the second broadcasts to the first, into a new value.
    pub fn binary(&mut self, label: &str, function: Binary, a: Value, b: Value) -> Result<Value> {
        let dims = self.dims(a).to_vec();
        let output = self.make(DType::F32, &dims)?;
        self.emit(label, Elementwise { function: function.into() }, &[a, b], output);
        Ok(output)
    }

    /// An expression of values that broadcast to the first one, into a new value.
    pub fn fused<const N: usize>(
        &mut self,
        label: &str,
        inputs: [Value; N],
        build: impl for<'a> Fn(&'a Expression, [Term<'a>; N]) -> Term<'a>,
    ) -> Result<Value> {
        let expression = Expression::new(N);
        let result = build(&expression, expression.inputs());
        let expression = expression.finish(result).map_err(Error::from)?;
        let dims = self.dims(inputs[0]).to_vec();
        let output = self.make(DType::F32, &dims)?;
        self.emit(label, expression, &inputs, output);
        Ok(output)
    }

    /// Each element times a number.
    pub fn scale(&mut self, label: &str, x: Value, factor: f64) -> Result<Value> {
        if factor == 1.0 {
            return Ok(x);
        }
        self.fused(label, [x], move |build, [x]| x * build.scalar(factor))
    }

    /// `cap * tanh(x / cap)`.
    pub fn softcap(&mut self, label: &str, x: Value, cap: Option<f64>) -> Result<Value> {
        let Some(cap) = cap else { return Ok(x) };
        self.fused(label, [x], move |build, [x]| {
            build.scalar(cap) * (x * build.scalar(1.0 / cap)).unary(Unary::Tanh)
        })
    }

    /// The value whose memory this one is in.
    fn root(&self, mut value: Value) -> Value {
        while let Origin::View(of) = self.values[value.0].origin {
            value = of;
        }
        value
    }

    /// Gives memory to all values. `result` is kept until the end.
    pub fn finish(
        mut self,
        result: Option<Value>,
        arena: &mut Arena,
    ) -> Result<(Plan, Option<Array>)> {
        self.drop_unread(result);
        debug_assert!(self.reads_what_is_there(), "a step reads what no step before it wrote");
        let spans = self.spans(result);
        let (offsets, bytes) = place(&spans);
        let arena = arena.reserve(&self.device, bytes)?;
        let mut roots: Vec<Option<Array>> = Vec::with_capacity(self.values.len());
        for (number, entry) in self.values.iter().enumerate() {
            roots.push(match &entry.origin {
                Origin::Given(array) => Some(array.clone()),
                Origin::Made(dtype) => {
                    let elements = entry.layout.elements();
                    let buffer = arena.elements_at(offsets[number], *dtype, elements)?;
                    Some(Array::new(buffer, entry.layout)?)
                }
                Origin::View(_) => None,
            });
        }
        let array = |value: Value| -> Result<Array> {
            let root = roots[self.root(value).0].as_ref();
            let root = root.expect("a root should have memory");
            match self.values[value.0].origin {
                Origin::View(_) => Ok(root.with_layout(self.values[value.0].layout)?),
                _ => Ok(root.clone()),
            }
        };
        let logits = result.map(array).transpose()?;
        let mut steps = Vec::with_capacity(self.steps.len());
        for draft in &self.steps {
            let inputs = draft.inputs.iter().map(|&input| array(input)).collect::<Result<_>>()?;
            let output = array(draft.output)?;
            steps.push((inputs, output));
        }
        let steps = self.steps.into_iter().zip(steps).map(|(draft, (inputs, output))| Step {
            label: draft.label,
            operation: draft.operation,
            inputs,
            output,
        });
        Ok((Plan::new(steps.collect()), logits))
    }

    /// Whether each value of the arena is written before it is read.
    fn reads_what_is_there(&self) -> bool {
        let mut is_written: Vec<bool> =
            self.values.iter().map(|entry| !matches!(entry.origin, Origin::Made(_))).collect();
        self.steps.iter().all(|step| {
            let is_there = step.inputs.iter().all(|&input| is_written[self.root(input).0]);
            is_written[self.root(step.output).0] = true;
            is_there
        })
    }

    /// Leaves out steps whose results nobody reads: norms that became a part of what follows.
    fn drop_unread(&mut self, result: Option<Value>) {
        let mut is_read = vec![false; self.values.len()];
        if let Some(result) = result {
            is_read[self.root(result).0] = true;
        }
        let mut kept = Vec::with_capacity(self.steps.len());
        while let Some(step) = self.steps.pop() {
            let output = self.root(step.output);
            let is_made = matches!(self.values[output.0].origin, Origin::Made(_));
            if is_made && !is_read[output.0] {
                continue;
            }
            for &input in &step.inputs {
                is_read[self.root(input).0] = true;
            }
            kept.push(step);
        }
        kept.reverse();
        self.steps = kept;
    }

    /// For each value of the arena: the bytes it takes, the first and the last step that needs it.
    fn spans(&self, result: Option<Value>) -> Vec<Option<Span>> {
        let mut spans: Vec<Option<Span>> = Vec::with_capacity(self.values.len());
        for entry in &self.values {
            spans.push(match entry.origin {
                Origin::Made(dtype) => {
                    let bytes = entry.layout.elements() * dtype.size();
                    let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
                    Some(Span { bytes, first: usize::MAX, last: 0 })
                }
                _ => None,
            });
        }
        let mut needed = |value: Value, step: usize| {
            if let Some(span) = &mut spans[self.root(value).0] {
                span.first = span.first.min(step);
                span.last = span.last.max(step);
            }
        };
        for (number, step) in self.steps.iter().enumerate() {
            step.inputs.iter().for_each(|&input| needed(input, number));
            needed(step.output, number);
        }
        if let Some(result) = result {
            needed(result, self.steps.len());
        }
        spans
    }
}

/// The bytes of a value, and the steps between which it is needed.
#[derive(Debug, Clone, Copy)]
struct Span {
    bytes: usize,
    first: usize,
    last: usize,
}

impl Span {
    fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Offsets in an arena, such that values that are needed at the same time lie apart; and the bytes of the arena. The
/// largest are placed first, each into the lowest gap.
fn place(spans: &[Option<Span>]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..spans.len()).filter(|&value| spans[value].is_some()).collect();
    order.sort_by_key(|&value| std::cmp::Reverse(spans[value].map_or(0, |span| span.bytes)));
    let mut offsets = vec![0; spans.len()];
    let mut placed: Vec<(usize, Span)> = Vec::new();
    let mut total = 0;
    for value in order {
        let Some(span) = spans[value] else { continue };
        let mut offset = 0;
        // Sorted by offset, so that the first gap that is large enough is found in one pass.
        for &(start, other) in placed.iter().filter(|(_, other)| other.meets(&span)) {
            if offset + span.bytes <= start {
                break;
            }
            offset = offset.max(start + other.bytes);
        }
        offsets[value] = offset;
        total = total.max(offset + span.bytes);
        let at = placed.partition_point(|&(start, _)| start < offset);
        placed.insert(at, (offset, span));
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_needed_together_lie_apart() {
        let span = |bytes, first, last| Some(Span { bytes, first, last });
        let spans = [span(512, 0, 2), span(256, 1, 3), None, span(512, 3, 5), span(768, 4, 4)];
        let (offsets, total) = place(&spans);
        for (i, a) in spans.iter().enumerate() {
            for (j, b) in spans.iter().enumerate().filter(|(j, _)| *j != i) {
                let (Some(a), Some(b)) = (a, b) else { continue };
                let apart =
                    offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                assert!(apart || !a.meets(b), "{i} and {j}");
            }
        }
        assert_eq!(total, 512 + 768);
    }
}
