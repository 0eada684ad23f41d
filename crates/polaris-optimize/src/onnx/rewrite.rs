//! The model with integers: QuantizeLinear and DequantizeLinear around its layers, and weights of bytes or of four bits.

use std::collections::{HashMap, HashSet};

use polaris_core::f16;
use polaris_onnx::{
    Attribute, ElementType, Graph, Model, Node, Plain, Tensor, Type, Value, ValueId,
};

use super::layer::{Form, Key, Layer, Linear};
use super::ranges::{self, Bytes};
use super::{Float, Shifts};
use crate::Result;
use crate::calibration::{Calibrator, Histograms};
use crate::integer::{Clip, HqqOptions, IntMatrix, Scaling, hqq, nearest};

/// The type of activations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Activations {
    /// Unsigned bytes with a zero point.
    #[default]
    U8,
    /// Signed bytes whose zero point is zero; -128 for tensors without negative values, which then use all levels.
    I8,
}

/// How a model is quantised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantizeOptions {
    /// What chooses the ranges of activations.
    pub calibrator: Calibrator,
    /// The type of activations.
    pub activations: Activations,
    /// How weights are rounded, where their levels were not chosen by a [`WeightSearch`](super::WeightSearch).
    pub weights: Weights,
}

/// How a weight is rounded without samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weights {
    /// Each element to the nearest level.
    Nearest(Clip),
    /// Scales for which a few errors are large and most are small.
    Hqq,
}

impl Default for QuantizeOptions {
    fn default() -> Self {
        Self {
            calibrator: Calibrator::MinMax,
            activations: Activations::U8,
            weights: Weights::Nearest(Clip::Extremes),
        }
    }
}

/// A model with layers of integers.
#[derive(Debug, Clone)]
pub struct Quantized {
    /// The model.
    pub model: Model,
    /// Its layers, with what became of each.
    pub layers: Vec<Layer>,
    /// The tensors that have a range of their own.
    pub tensors: Vec<QuantizedTensor>,
}

/// A tensor that has bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedTensor {
    /// Its name.
    pub name: String,
    /// The smallest and the largest value that was seen.
    pub seen: (f32, f32),
    /// What the lowest and the highest byte stand for, but for the rounding of the zero point.
    pub range: (f64, f64),
    /// What a step is.
    pub scale: f32,
    /// The byte of zero.
    pub zero: i32,
}

impl Float {
    /// The model with layers of integers. `shifts` are taken out of the results of layers, by their biases.
    ///
    /// # Errors
    /// If a tensor has no histogram, or one that says nothing of its range; the error names it. If a weight is not finite.
    pub fn quantize(
        &self,
        histograms: &Histograms,
        options: &QuantizeOptions,
        shifts: Option<&Shifts>,
    ) -> Result<Quantized> {
        let bytes = ranges::all(self, histograms, options)?;
        let mut model = self.model.clone();
        let mut writer = Writer::new(&mut model, self, options, &bytes);
        let mut nodes = Vec::new();
        for id in writer.graph.inputs.clone() {
            if let Some(bytes) = bytes.get(&id) {
                let x = writer.through_bytes(&mut nodes, id, None, bytes)?;
                writer.replaced.insert(id, x);
            }
        }
        let linears: HashMap<usize, &Linear> =
            self.linears.iter().map(|linear| (linear.node, linear)).collect();
        for (at, mut node) in std::mem::take(&mut writer.graph.nodes).into_iter().enumerate() {
            if let Some(linear) = linears.get(&at) {
                let shift =
                    shifts.and_then(|shifts| shifts.of(&self.model.graph.value(linear.y).name));
                writer.layer(&mut nodes, &mut node, linear, shift)?;
            }
            for input in node.inputs.iter_mut().flatten() {
                *input = writer.replaced.get(input).copied().unwrap_or(*input);
            }
            let mut after = Vec::new();
            for output in node.outputs.iter_mut().flatten() {
                if let Some(bytes) = bytes.get(output) {
                    // What reads the value reads it with levels: its name stays with that.
                    let made = writer.float(*output);
                    writer.through_bytes(&mut after, made, Some(*output), bytes)?;
                    *output = made;
                }
            }
            nodes.push(node);
            nodes.extend(after);
        }
        model.graph.nodes = nodes;
        remove_unused(&mut model.graph);
        let tensor = |id: ValueId| {
            let name = self.model.graph.value(id).name.clone();
            let (Bytes { range, scale, zero }, whole) =
                (bytes[&id], histograms.get(&name)?.whole());
            let (seen, range) = (whole.extremes()?, (range.low, range.high));
            Some(QuantizedTensor { name, seen, range, scale, zero })
        };
        let tensors = self.regions.origins().filter_map(tensor).collect();
        Ok(Quantized { model, layers: self.layers.clone(), tensors })
    }

    /// The weight of a layer as it is written.
    pub(super) fn levels(&self, linear: &Linear, options: &QuantizeOptions) -> Result<IntMatrix> {
        if let Some(matrix) = self.chosen.get(&linear.key()) {
            return Ok(matrix.clone());
        }
        let rows = linear.rows(&self.model.graph)?;
        let (form, grid) = (linear.form, linear.grid);
        let made = match options.weights {
            Weights::Nearest(clip) => nearest(&rows, form.channels, form.columns(), grid, clip),
            Weights::Hqq => hqq(&rows, form.channels, form.columns(), grid, &HqqOptions::default()),
        };
        let mut matrix = made.map_err(|error| self.of_weight(linear, &error))?;
        halve_scales(&mut matrix);
        let columns = form.columns();
        let level = |(at, &value): (usize, &f32)| {
            matrix.scaling(at / columns, at % columns).level(value, grid)
        };
        matrix.levels = rows.iter().enumerate().map(level).collect();
        Ok(matrix)
    }

    /// An error with the name of the weight that it is of.
    pub(super) fn of_weight(&self, linear: &Linear, error: &crate::Error) -> crate::Error {
        let name = self.model.graph.value(linear.weight).name.clone();
        crate::Error::Activation { tensor: name, why: error.to_string() }
    }
}

/// Rounds the scales of groups to half precision, in which blocks of engines have them, unless one is no normal number there.
pub(super) fn halve_scales(matrix: &mut IntMatrix) {
    let range = f32::from(f16::MIN_POSITIVE)..=f32::from(f16::MAX);
    let fits = |one: &Scaling| range.contains(&one.scale);
    if matrix.grid.group.is_some() && matrix.scalings.iter().all(fits) {
        let halved = |one: &mut Scaling| one.scale = f16::from_f32(one.scale).to_f32();
        matrix.scalings.iter_mut().for_each(halved);
    }
}

/// Sums of products of bytes leave this much room for a bias in 32 bits.
const LARGEST_BIAS: f64 = (1 << 29) as f64;

/// Products of scales below this lose digits.
const LEAST_SCALE: f64 = 1e-30;

struct Writer<'m> {
    graph: &'m mut Graph,
    /// The model as it was.
    float: &'m Float,
    options: &'m QuantizeOptions,
    bytes: &'m HashMap<ValueId, Bytes>,
    version: i64,
    names: HashSet<String>,
    /// What is read instead of an input of the graph.
    replaced: HashMap<ValueId, ValueId>,
    /// Weights by what they are made of, for layers that share one.
    weights: HashMap<Key, (IntMatrix, Option<ValueId>)>,
}

impl<'m> Writer<'m> {
    fn new(
        model: &'m mut Model,
        float: &'m Float,
        options: &'m QuantizeOptions,
        bytes: &'m HashMap<ValueId, Bytes>,
    ) -> Self {
        let version = model.opsets.get("").copied().unwrap_or(13);
        let graph = &mut model.graph;
        let names = graph.values.iter().map(|slot| slot.name.clone()).collect();
        let (replaced, weights) = (HashMap::new(), HashMap::new());
        Self { graph, float, options, bytes, version, names, replaced, weights }
    }

    fn value(&mut self, name: String, ty: Option<Type>, constant: Option<Value>) -> ValueId {
        let mut free = name.clone();
        let mut number = 0;
        while !self.names.insert(free.clone()) {
            number += 1;
            free = format!("{name}_{number}");
        }
        self.graph.add_value(free, ty, constant)
    }

    fn constant<T: Plain>(
        &mut self,
        name: String,
        shape: &[usize],
        values: Vec<T>,
    ) -> Result<ValueId> {
        let value = Value::Tensor(Tensor::new(shape, values)?);
        Ok(self.value(name, Some(value.ty()), Some(value)))
    }

    fn name(&self, id: ValueId) -> String {
        self.graph.value(id).name.clone()
    }

    fn node(&self, operator: &str, inputs: Vec<ValueId>, output: ValueId) -> Node {
        Node {
            path: format!("{}_{operator}", self.graph.value(output).name),
            domain: String::new(),
            operator: operator.to_owned(),
            version: self.version,
            attributes: Default::default(),
            inputs: inputs.into_iter().map(Some).collect(),
            outputs: vec![Some(output)],
        }
    }

    /// What a node makes in the place of a value that will have levels.
    fn float(&mut self, id: ValueId) -> ValueId {
        let ty = self.graph.value(id).ty.clone();
        self.value(format!("{}_float", self.name(id)), ty, None)
    }

    /// Quantises a value and back, and gives what comes out of it.
    fn through_bytes(
        &mut self,
        nodes: &mut Vec<Node>,
        x: ValueId,
        made: Option<ValueId>,
        bytes: &Bytes,
    ) -> Result<ValueId> {
        let name = self.name(made.unwrap_or(x));
        let element = match self.options.activations {
            Activations::U8 => ElementType::U8,
            Activations::I8 => ElementType::I8,
        };
        let ty = match &self.graph.value(x).ty {
            Some(Type::Tensor(_, dims)) => Some(Type::Tensor(element, dims.clone())),
            _ => None,
        };
        let scale = self.constant(format!("{name}_scale"), &[], vec![bytes.scale])?;
        let zero = Value::Tensor(Tensor::from_f64(element, &[], &[f64::from(bytes.zero)])?);
        let zero = self.value(format!("{name}_zero_point"), Some(zero.ty()), Some(zero));
        let integers = self.value(format!("{name}_quantized"), ty, None);
        let made = made.unwrap_or_else(|| {
            let ty = self.graph.value(x).ty.clone();
            self.value(format!("{name}_dequantized"), ty, None)
        });
        nodes.push(self.node("QuantizeLinear", vec![x, scale, zero], integers));
        nodes.push(self.node("DequantizeLinear", vec![integers, scale, zero], made));
        Ok(made)
    }

    /// Gives a layer a weight of bytes, and a bias in units of what it sums.
    fn layer(
        &mut self,
        nodes: &mut Vec<Node>,
        node: &mut Node,
        linear: &Linear,
        shift: Option<&[f64]>,
    ) -> Result<()> {
        let key = linear.key();
        let (mut matrix, mut shared) = match self.weights.get(&key) {
            Some(made) => made.clone(),
            None => (self.float.levels(linear, self.options)?, None),
        };
        let x_scale = if linear.is_int8 { self.bytes[&linear.x].scale } else { 1.0 };
        let mut bias = linear.bias.clone();
        if let Some(shift) = shift.filter(|_| linear.takes_bias) {
            let bias = bias.get_or_insert_with(|| vec![0.0; shift.len()]);
            bias.iter_mut().zip(shift).for_each(|(bias, shift)| *bias -= shift);
        }
        let is_own =
            linear.is_int8 && self.make_room(linear, &mut matrix, x_scale, bias.as_deref())?;
        if is_own {
            shared = None;
        }
        let weight = match shared {
            Some(id) => id,
            None => self.weight(nodes, linear, &matrix)?,
        };
        if !is_own {
            self.weights.insert(key, (matrix.clone(), Some(weight)));
        }
        node.inputs[1] = Some(weight);
        // Levels have the factor of products in them.
        node.attributes.remove("alpha");
        if !linear.is_int8 {
            return Ok(());
        }
        node.attributes.remove("beta");
        node.inputs.truncate(2);
        if let Some(bias) = bias {
            let bias = self.bias(nodes, &node.path, &matrix, x_scale, &bias)?;
            if node.operator == "MatMul" {
                // With a bias it is the other operator of products.
                node.operator = "Gemm".to_owned();
            }
            node.inputs.push(Some(bias));
        }
        Ok(())
    }

    /// Widens scales of channels whose biases would otherwise not fit into 32 bits, and chooses those of channels without
    /// weights by the bias alone. Says whether it changed any.
    fn make_room(
        &self,
        linear: &Linear,
        matrix: &mut IntMatrix,
        x_scale: f32,
        bias: Option<&[f64]>,
    ) -> Result<bool> {
        let (columns, grid) = (matrix.columns, matrix.grid);
        let mut rows: Option<Vec<f32>> = None;
        for channel in 0..matrix.rows {
            let bias = bias.map_or(0.0, |bias| bias[channel].abs());
            let least = (bias / LARGEST_BIAS).max(LEAST_SCALE) / f64::from(x_scale);
            let levels = &matrix.levels[channel * columns..][..columns];
            let is_empty = levels.iter().all(|&level| level == 0);
            let scale = f64::from(matrix.scalings[channel].scale);
            if scale >= least && !(is_empty && bias > 0.0) {
                continue;
            }
            let rows = match &mut rows {
                Some(rows) => rows,
                None => rows.insert(linear.rows(&self.float.model.graph)?),
            };
            let scale = if is_empty { 2.0 * least } else { least } as f32;
            matrix.scalings[channel].scale = scale;
            let scaling = matrix.scalings[channel];
            for (level, value) in matrix.levels[channel * columns..]
                .iter_mut()
                .zip(&rows[channel * columns..][..columns])
            {
                *level = scaling.level(*value, grid);
            }
        }
        Ok(rows.is_some())
    }

    fn weight(
        &mut self,
        nodes: &mut Vec<Node>,
        linear: &Linear,
        matrix: &IntMatrix,
    ) -> Result<ValueId> {
        let name = self.name(linear.weight);
        let (shape, ty) = match &self.graph.value(linear.weight).constant {
            Some(value) => (value.tensor()?.shape().to_vec(), value.ty()),
            None => return Ok(linear.weight),
        };
        let mut scales: Vec<f32> = matrix.scalings.iter().map(|scaling| scaling.scale).collect();
        let Form { axis, .. } = linear.form;
        let levels = linear.form.weight(&matrix.levels);
        let integers = format!("{name}_quantized");
        let integers = match matrix.grid.bits {
            4 => {
                let levels: Vec<i128> = levels.into_iter().map(i128::from).collect();
                let narrow = Tensor::from_integers(ElementType::I4, &shape, &levels)?;
                let narrow = Value::Tensor(narrow);
                self.value(integers, Some(narrow.ty()), Some(narrow))
            }
            _ => self.constant(integers, &shape, levels)?,
        };
        let mut of_scales = vec![matrix.rows];
        if matrix.grid.group.is_some() {
            // Groups are along the other axis of a matrix.
            let groups = matrix.groups();
            of_scales.insert(1 - axis, groups);
            if axis == 1 {
                let at = |place: usize| place % matrix.rows * groups + place / matrix.rows;
                scales = (0..scales.len()).map(|place| scales[at(place)]).collect();
            }
        }
        let scale = self.constant(format!("{name}_scale"), &of_scales, scales)?;
        let made = self.value(format!("{name}_dequantized"), Some(ty), None);
        let mut inputs = vec![integers, scale];
        if matrix.grid.bits == 8 && matrix.grid.group.is_none() {
            let zeros = vec![0i8; matrix.rows];
            inputs.push(self.constant(format!("{name}_zero_point"), &of_scales, zeros)?);
        }
        let mut node = self.node("DequantizeLinear", inputs, made);
        match matrix.grid.group {
            Some(_) => {
                let group = matrix.grid.group_in(matrix.columns);
                node.attributes.set("axis", Attribute::Int(1 - axis as i64));
                node.attributes.set("block_size", Attribute::Int(group as i64));
            }
            None => node.attributes.set("axis", Attribute::Int(axis as i64)),
        }
        nodes.push(node);
        Ok(made)
    }

    fn bias(
        &mut self,
        nodes: &mut Vec<Node>,
        path: &str,
        matrix: &IntMatrix,
        x_scale: f32,
        bias: &[f64],
    ) -> Result<ValueId> {
        let scales: Vec<f32> =
            matrix.scalings.iter().map(|scaling| x_scale * scaling.scale).collect();
        let whole =
            |(bias, scale): (&f64, &f32)| (bias / f64::from(*scale)).round_ties_even() as i32;
        let integers: Vec<i32> = bias.iter().zip(&scales).map(whole).collect();
        let channels = [integers.len()];
        let zeros = vec![0i32; integers.len()];
        let integers = self.constant(format!("{path}_bias_quantized"), &channels, integers)?;
        let scale = self.constant(format!("{path}_bias_scale"), &channels, scales)?;
        let zero = self.constant(format!("{path}_bias_zero_point"), &channels, zeros)?;
        let ty = Type::tensor(ElementType::F32, channels);
        let made = self.value(format!("{path}_bias_dequantized"), Some(ty), None);
        let mut node = self.node("DequantizeLinear", vec![integers, scale, zero], made);
        node.attributes.set("axis", Attribute::Int(0));
        nodes.push(node);
        Ok(made)
    }
}

/// Forgets constants that nobody needs any more, and the types of values that are gone.
fn remove_unused(graph: &mut Graph) {
    let mut used = vec![false; graph.values.len()];
    let needed = graph.nodes.iter().flat_map(Node::needs);
    let made = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten().copied());
    let ends = graph.inputs.iter().chain(&graph.outputs).copied();
    needed.chain(made).chain(ends).for_each(|id| used[id.index()] = true);
    for (slot, _) in graph.values.iter_mut().zip(used).filter(|(_, used)| !used) {
        (slot.constant, slot.ty) = (None, None);
    }
}
