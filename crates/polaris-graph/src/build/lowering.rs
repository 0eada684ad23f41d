//! Tools of lowerings: operands on the right side, prepacked constants, new arrays, instructions.

use polaris_core::{DType, Layout, Shape};
use polaris_onnx::{ElementType, Node, Tensor, Value, ValueId};
use polaris_ops::copy::Copy;
use polaris_ops::format::Role;
use polaris_ops::{Format, MatMul};

use super::{Builder, Usage};
use crate::Result;
use crate::passes::{Integers, summed_axis};
use crate::plan::types::{array_type, has_adjacent_channels, with_adjacent_channels};
use crate::plan::{Action, Home, Instruction, Operand, Origin, Side, Slot, SlotId, Step};

impl<'a> Builder<'a> {
    /// The type and shape of a value, if it can be an array.
    pub fn array_type(&self, id: ValueId) -> Option<(DType, Shape)> {
        let fact = &self.facts[id.index()];
        let known = fact.ty.as_ref().and_then(array_type)?;
        let there = self.constants.contains_key(&id)
            || self.located[id.index()].places.iter().any(Option::is_some);
        there.then_some(known)
    }

    /// The type and shape that a result will have, if it can be an array.
    pub fn result_type(&self, id: ValueId) -> Option<(DType, Shape)> {
        self.facts[id.index()].ty.as_ref().and_then(array_type)
    }

    /// The elements of a constant.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        match self.constants.get(&id) {
            Some(Value::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    /// The array of a value on the node's side; copied there if it lies elsewhere.
    ///
    /// # Errors
    /// If it is not an array, or there is no room for a constant.
    pub fn operand(&mut self, id: ValueId) -> Result<Operand> {
        self.operand_on(id, self.side)
    }

    pub(super) fn operand_on(&mut self, id: ValueId, side: Side) -> Result<Operand> {
        if let Some(operand) = self.located[id.index()].places[side.index()] {
            return Ok(operand);
        }
        if let Some(value) = self.constants.get(&id) {
            let shared = self.request.graph.value(id).constant.is_some();
            let array = self.request.arrays.array(id, value.tensor()?, side, shared)?;
            let operand = self.constant_slot(&self.request.graph.value(id).name, side, array);
            self.located[id.index()].places[side.index()] = Some(operand);
            return Ok(operand);
        }
        let elsewhere = self.located[id.index()].places[side.other().index()];
        let elsewhere = elsewhere.ok_or_else(|| self.lost(id))?;
        let input = self.dense(elsewhere);
        let name = self.slots[input.slot.0].name.clone();
        let output = self.slot_for(&name, side, input.dtype, *input.layout.shape());
        self.push(Step::Transfer { input: Origin::Array(input), output }, side);
        self.located[id.index()].places[side.index()] = Some(output);
        Ok(output)
    }

    fn constant_slot(&mut self, name: &str, side: Side, array: polaris_ops::Array) -> Operand {
        let slot = SlotId(self.slots.len());
        let (dtype, format, layout) = (array.dtype(), array.format(), *array.layout());
        let bytes = array.buffer().bytes();
        self.slots.push(Slot { name: name.to_owned(), side, bytes, home: Home::Constant(array) });
        Operand { slot, dtype, format, layout }
    }

    /// A constant that a lowering makes itself.
    ///
    /// # Errors
    /// If there is no room.
    pub fn new_constant(&mut self, tensor: &Tensor) -> Result<Operand> {
        let array = self.request.arrays.upload(tensor, self.side)?;
        Ok(self.constant_slot("constant", self.side, array))
    }

    /// Whether the node is computed on the CPU.
    pub fn is_on_cpu(&self) -> bool {
        self.side == Side::Cpu
    }

    /// A constant matrix of the graph, possibly turned, prepared as the second factor of products. `None` if the value
    /// is no such constant, or the node's side has no such form.
    ///
    /// # Errors
    /// If there is no room.
    pub fn prepared_matrix(&mut self, id: ValueId, turned: bool) -> Result<Option<Operand>> {
        let usage = Usage { role: Role::MatMul { left: DType::F32 }, turned };
        self.prepared(id, usage, |b| {
            let matrix = b.shared_constant(id).filter(|tensor| is_matrix(tensor.shape()));
            Ok(matrix.map(|tensor| tensor.reshaped(&tensor.shape()[..2])).transpose()?)
        })
    }

    /// The constant weight of a convolution, prepared for it, if the node's side has such a form.
    ///
    /// # Errors
    /// If there is no room.
    pub fn prepared_weight(&mut self, id: ValueId, groups: usize) -> Result<Option<Operand>> {
        let usage = Usage { role: Role::Convolution { groups }, turned: false };
        self.prepared(id, usage, |b| Ok(b.shared_constant(id).cloned()))
    }

    /// A weight in the form that the node's side likes best for a use, if it has one. It is known by a value: the
    /// constant itself, or what is made with it.
    ///
    /// # Errors
    /// If the weight cannot be made, or there is no room.
    pub fn prepared(
        &mut self,
        id: ValueId,
        usage: Usage,
        weight: impl FnOnce(&Self) -> Result<Option<Tensor>>,
    ) -> Result<Option<Operand>> {
        let key = (id, usage, self.side);
        if let Some(operand) = self.weights.get(&key) {
            return Ok(Some(*operand));
        }
        let array = self.request.arrays.weight(id, self.side, usage, || weight(self))?;
        let Some(array) = array else { return Ok(None) };
        let operand = self.constant_slot(&self.request.graph.value(id).name, self.side, array);
        self.weights.insert(key, operand);
        Ok(Some(operand))
    }

    /// A constant matrix of integers in blocks, if all that read the result of its dequantisation are products, and blocks
    /// have its elements exactly: an operand of the shape of the matrix.
    ///
    /// # Errors
    /// If there is no room.
    pub fn in_blocks(&mut self, node: &Node, result: ValueId) -> Result<Option<Operand>> {
        let graph = self.request.graph;
        let constant = |index: usize| {
            let id = node.inputs.get(index).copied().flatten()?;
            self.constant(id).filter(|_| graph.value(id).constant.is_some())
        };
        if constant(0).is_none() || graph.outputs.contains(&result) {
            return Ok(None);
        }
        let users = graph.nodes.iter().filter(|user| user.needs().any(|id| id == result));
        let Some(axis) = summed_axis(result, users) else { return Ok(None) };
        let Some(integers) = Integers::of(node, axis, constant) else { return Ok(None) };
        let Some(array) = self.request.arrays.blocks(result, self.side, &integers)? else {
            return Ok(None);
        };
        let array = if axis == 0 { array.permute(&[1, 0])? } else { array };
        Ok(Some(self.constant_slot(&graph.value(result).name, self.side, array)))
    }

    /// A matmul of this session.
    pub fn matmul(&self) -> MatMul {
        MatMul { precision: self.request.arrays.precision(), ..MatMul::default() }
    }

    /// The node of this graph that makes a value as its first result, if it is this operator of ONNX' own.
    pub fn made_by(&self, id: ValueId, operator: &str) -> Option<&'a Node> {
        let node = &self.request.graph.nodes[*self.makers.get(&id)?];
        (node.domain.is_empty() && node.operator == operator).then_some(node)
    }

    /// A constant of the graph that can be packed for the CPU.
    fn shared_constant(&self, id: ValueId) -> Option<&Tensor> {
        let shared = self.request.graph.value(id).constant.is_some();
        let fits = |tensor: &&Tensor| tensor.element() == ElementType::F32 && tensor.elements() > 0;
        self.constant(id).filter(|_| shared && self.is_on_cpu()).filter(fits)
    }

    /// Memory for a result of the node that is being lowered, densely.
    pub fn new_array(&mut self, dtype: DType, shape: Shape) -> Operand {
        let name = self.request.graph.nodes[self.node].path.clone();
        self.slot_for(&name, self.side, dtype, shape)
    }

    /// Memory for a result of an operation on single elements, or one that leaves channels apart, of an operand: NHWC
    /// stays NHWC.
    pub fn new_array_like(&mut self, operand: &Operand, dtype: DType, shape: Shape) -> Operand {
        let array = self.new_array(dtype, shape);
        match has_adjacent_channels(&operand.layout)
            && shape.rank() == operand.layout.shape().rank()
        {
            true => Operand { layout: with_adjacent_channels(&shape), ..array },
            false => array,
        }
    }

    /// An operation on single elements into a new array. Where the first operand of the result's shape is NHWC, so is
    /// the result, and all are looked at in the order of memory.
    ///
    /// # Errors
    /// If an operand cannot be repeated to the shape.
    pub fn compute_elements(
        &mut self,
        action: Action,
        operands: &[Operand],
        dtype: DType,
        shape: Shape,
    ) -> Result<Operand> {
        let whole = operands.iter().find(|operand| *operand.layout.shape() == shape);
        if !whole.is_some_and(|operand| has_adjacent_channels(&operand.layout)) {
            return Ok(self.compute(action, operands, dtype, shape));
        }
        let rank = shape.rank();
        let in_memory: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
        let turned = (operands.iter())
            .map(|operand| {
                let layout = operand.layout.broadcast_to("elementwise", &shape)?;
                Ok(Operand { layout: layout.permute(&in_memory)?, ..*operand })
            })
            .collect::<Result<Vec<Operand>>>()?;
        let turned_shape = *turned[0].layout.shape();
        let result = self.compute(action, &turned, dtype, turned_shape);
        Ok(Operand { layout: with_adjacent_channels(&shape), ..result })
    }

    pub(super) fn slot_for(
        &mut self,
        name: &str,
        side: Side,
        dtype: DType,
        shape: Shape,
    ) -> Operand {
        let slot = SlotId(self.slots.len());
        let bytes = shape.elements() * dtype.size();
        let home = Home::Arena { chunk: 0, offset: 0 };
        self.slots.push(Slot { name: name.to_owned(), side, bytes, home });
        Operand { slot, dtype, format: Format::Dense, layout: Layout::contiguous(shape) }
    }

    /// The same elements, one after another in memory.
    pub fn dense(&mut self, operand: Operand) -> Operand {
        if operand.layout.is_contiguous() && operand.format == Format::Dense {
            return operand;
        }
        self.copied(operand)
    }

    /// The same elements, one after another in a slot of their own.
    pub fn copied(&mut self, operand: Operand) -> Operand {
        let Slot { name, side, .. } = self.slots[operand.slot.0].clone();
        let output = self.slot_for(&name, side, operand.dtype, *operand.layout.shape());
        let step = Step::Device { action: Action::new(Copy), inputs: vec![operand], output };
        self.push(step, side);
        output
    }

    /// The same elements in another shape; copied where their places do not allow it.
    ///
    /// # Errors
    /// If the shape holds another number of them.
    pub fn reshaped(&mut self, operand: Operand, shape: Shape) -> Result<Operand> {
        if let Some(layout) = operand.layout.reshape(&shape) {
            return Ok(Operand { layout, ..operand });
        }
        let dense = self.dense(operand);
        let layout = dense.layout.reshape(&shape).ok_or_else(|| {
            polaris_onnx::Error::operands(format!("{} cannot become {shape}", dense.layout.shape()))
        })?;
        Ok(Operand { layout, ..dense })
    }

    /// An operation into an array.
    pub fn emit(&mut self, action: Action, inputs: &[Operand], output: Operand) {
        let step = Step::Device { action, inputs: inputs.to_vec(), output };
        self.push(step, self.side);
    }

    /// An operation into a new array.
    pub fn compute(
        &mut self,
        action: Action,
        inputs: &[Operand],
        dtype: DType,
        shape: Shape,
    ) -> Operand {
        let output = self.new_array(dtype, shape);
        self.emit(action, inputs, output);
        output
    }

    /// A result of the node lies here.
    pub fn set(&mut self, id: Option<ValueId>, operand: Operand) {
        if let Some(id) = id {
            self.located[id.index()].places[self.slots[operand.slot.0].side.index()] =
                Some(operand);
        }
    }

    pub(super) fn push(&mut self, step: Step, side: Side) {
        self.instructions.push(Instruction { step, side, node: self.node });
    }
}

/// Whether all axes but the first two have one element.
fn is_matrix(shape: &[usize]) -> bool {
    shape.len() >= 2 && shape[2..].iter().all(|&length| length == 1)
}
