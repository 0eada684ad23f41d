//! The cases of attention and its gradient: heads in groups, masks of every shape, causal borders.

use crate::{Attention, AttentionGradient};
use polaris_core::{Collapsed, DType, Layout, Shape};

use crate::families::Family;
use crate::suite::{
    Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance, rounded,
};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("attention", super::shipped_programs, || VARIANTS.len(), is_essential, case);

/// Whether it is the gradient, and the type. Half precisions differ in how elements are read, which
/// one of them shows: each program costs a build.
const VARIANTS: &[(bool, DType)] = &[
    (false, DType::F32),
    (true, DType::F32),
    (false, DType::F16),
    (false, DType::F64),
    (true, DType::F64),
];

/// Both in `f32`.
fn is_essential(variant: usize) -> bool {
    VARIANTS[variant].1 == DType::F32
}

/// Elements of a key and of a value. Each pair of multiples of 64 that they are rounded up to is a
/// program of its own; those of the last pair are kept for `f32`.
const WIDTHS: [(usize, usize); 5] = [(64, 64), (1, 3), (3, 1), (33, 64), (80, 80)];

/// The most queries and keys: the reference takes all pairs of them.
const MOST_QUERIES: usize = 70;
const MOST_KEYS: usize = 140;

/// The last axes of the shape are queries and keys, those in front of them heads.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (gradient, dtype) = VARIANTS[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let dims = &parameters.shape;
    let from_end = |place: usize| dims.iter().rev().nth(place).copied();
    let (keys, queries) = (from_end(0).unwrap_or(1), from_end(1).unwrap_or(5));
    let (queries, keys) = (queries.min(MOST_QUERIES), keys.min(MOST_KEYS));
    let key_heads = from_end(2).unwrap_or(1).min(2);
    let group = 1 + numbers.below(2) as usize;
    let batch = from_end(3).unwrap_or(1 + numbers.below(2) as usize).min(2);
    let widths = if dtype == DType::F32 { WIDTHS.len() } else { WIDTHS.len() - 1 };
    let (depth, values) = WIDTHS[numbers.below(widths as u64) as usize];
    let offsets = [0, keys as i64 - queries as i64, -2, 3];
    let op = Attention {
        scale: [None, Some(0.3), Some(-0.5)][numbers.below(3) as usize],
        causal: numbers.below(2) == 0,
        causal_offset: offsets[numbers.below(4) as usize],
    };
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let draw = |dims: &[usize], place: &Arrangement, numbers: &mut Numbers| {
        Operand::input(dims, place, dtype, Domain::Any, false, numbers)
    };
    let rows = [batch, key_heads * group, queries];
    let [of_q, of_values] = [depth, values].map(|width| [&rows[..], &[width]].concat());
    let mut q = draw(&of_q, &place(0), numbers);
    let k = draw(&[batch, key_heads, keys, depth], &place(1), numbers);
    let v = draw(&[batch, key_heads, keys, values], &place(2), numbers);
    // Pairs that do not see each other are multiplied by zero, and of NaN that would be NaN.
    if parameters.special && !op.causal {
        spoil(&mut q, numbers);
    }
    let mask = (numbers.below(2) == 0).then(|| {
        let shape = [&rows[..], &[keys]].concat();
        let mut mask = draw(&shape, &parameters.inputs[(1 + numbers.below(2)) as usize], numbers);
        hide(&mut mask, numbers);
        mask
    });
    let plain = Plain::new(&op, group, &q, &k, &v, mask.as_ref());
    let mut inputs = vec![q, k, v];
    let output_dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let in_line = Arrangement { offset: parameters.output.offset, ..Arrangement::default() };
    let result = |elements: usize, numbers: &mut Numbers| {
        Operand::output(&[elements], &in_line, output_dtype, numbers)
    };
    let tolerance = Tolerance::Accumulated;
    if !gradient {
        inputs.extend(mask);
        let scale = plain.forward_scale();
        let output = result(scale.len(), numbers);
        return Case::new(op, inputs, output, tolerance, scale);
    }
    let g = draw(&of_values, &place(0), numbers);
    let mut output = draw(&of_values, &place(1), numbers);
    set(&mut output, &plain.outputs());
    let mut logarithms =
        Operand::input(&rows, &place(2), output_dtype, Domain::Any, false, numbers);
    set(&mut logarithms, &plain.logarithms);
    let scale = plain.gradient_scale(&g.elements());
    inputs.extend([output, logarithms, g]);
    inputs.extend(mask);
    let output = result(scale.len(), numbers);
    Case::new(AttentionGradient { forward: op }, inputs, output, tolerance, scale)
}

/// Makes a few elements NaN or infinite.
fn spoil(operand: &mut Operand, numbers: &mut Numbers) {
    let many = operand.contents.len() as u64;
    for value in [f64::NAN, f64::INFINITY] {
        operand.contents[numbers.below(many) as usize] = value;
    }
}

/// Hides keys: none, some, or so many that some queries see nothing.
fn hide(mask: &mut Operand, numbers: &mut Numbers) {
    let hidden = [0, 8, 30][numbers.below(3) as usize];
    for value in &mut mask.contents {
        if numbers.below(32) < hidden {
            *value = f64::NEG_INFINITY;
        }
    }
}

/// Sets the elements, in row-major order, to the nearest values of the type.
fn set(operand: &mut Operand, values: &[f64]) {
    let space = Collapsed::new(operand.layout.shape(), [&operand.layout]);
    for (point, &value) in values.iter().enumerate() {
        operand.contents[space.point(point)[0]] = rounded(value, operand.dtype);
    }
}

/// Attention by its definition, for what its errors scale with.
struct Plain {
    depth: usize,
    values: usize,
    scale: f64,
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    /// Of each query the row of its first key, and the weights of the keys that it sees.
    weights: Vec<(usize, Vec<f64>)>,
    logarithms: Vec<f64>,
    /// Of each query the magnitude that the errors of its scores scale with.
    errors: Vec<f64>,
}

impl Plain {
    fn new(
        op: &Attention,
        group: usize,
        q: &Operand,
        k: &Operand,
        v: &Operand,
        mask: Option<&Operand>,
    ) -> Self {
        let (q_dims, k_dims) = (q.layout.shape().dims(), k.layout.shape().dims());
        let ([batch, heads, queries, depth], keys) =
            ([q_dims[0], q_dims[1], q_dims[2], q_dims[3]], k_dims[2]);
        let scale = op.scale.unwrap_or(1.0 / (depth as f64).sqrt());
        let mask = mask.map(|mask| spread(mask, &[batch, heads, queries, keys]));
        let mut plain = Self {
            depth,
            values: v.layout.shape()[3],
            scale,
            q: q.elements(),
            k: k.elements(),
            v: v.elements(),
            weights: Vec::new(),
            logarithms: Vec::new(),
            errors: Vec::new(),
        };
        for row in 0..batch * heads * queries {
            let (head, query) = (row / queries, row % queries);
            let key_head = head / heads * (heads / group) + head % heads / group;
            let end = if op.causal { query as i64 + op.causal_offset + 1 } else { keys as i64 };
            let (mut scores, mut error) = (Vec::new(), 1.0f64);
            for key in 0..end.clamp(0, keys as i64) as usize {
                let at = (key_head * keys + key) * depth;
                let products = (0..depth).map(|i| plain.q[row * depth + i] * plain.k[at + i]);
                let (sum, magnitudes) =
                    products.fold((0.0, 0.0), |(sum, all), p| (sum + p, all + p.abs()));
                let added = mask.as_ref().map_or(0.0, |mask| mask[row * keys + key]);
                scores.push(scale * sum + added);
                error = error.max(finite(1.0 + scale.abs() * magnitudes + added.abs()));
            }
            plain.add_row(key_head * keys, &scores, error);
        }
        plain
    }

    fn add_row(&mut self, first_key: usize, scores: &[f64], error: f64) {
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sees = scores.iter().any(|&score| score != f64::NEG_INFINITY);
        let weights = scores.iter().map(|s| if sees { (s - largest).exp() } else { 0.0 });
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        let shares = weights.iter().map(|weight| if sees { weight / sum } else { 0.0 }).collect();
        self.weights.push((first_key, shares));
        self.logarithms.push(if sees { largest + sum.ln() } else { f64::NEG_INFINITY });
        self.errors.push(error);
    }

    /// For each query and each of its keys: the query, the key's row and the weight.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        self.weights.iter().enumerate().flat_map(|(row, (first, weights))| {
            weights.iter().enumerate().map(move |(key, &weight)| (row, first + key, weight))
        })
    }

    fn outputs(&self) -> Vec<f64> {
        let mut outputs = vec![0.0; self.weights.len() * self.values];
        for (row, key, weight) in self.pairs() {
            for i in 0..self.values {
                outputs[row * self.values + i] += weight * self.v[key * self.values + i];
            }
        }
        outputs
    }

    /// A weight is off by as much as its score, relative to itself.
    fn forward_scale(&self) -> Vec<f64> {
        let mut scales = vec![0.0; self.weights.len() * self.values];
        for (row, key, weight) in self.pairs() {
            for i in 0..self.values {
                let value = self.v[key * self.values + i].abs();
                scales[row * self.values + i] += finite(self.errors[row] * weight * value);
            }
        }
        scales.extend(&self.errors);
        scales
    }

    /// The same sums as the gradients', of magnitudes.
    fn gradient_scale(&self, g: &[f64]) -> Vec<f64> {
        let Self { depth, values, .. } = *self;
        let [mut of_q, mut of_k, mut of_v] =
            [&self.q, &self.k, &self.v].map(|array| vec![0.0; array.len()]);
        let slope = |row: usize, key: usize| -> f64 {
            (0..values).map(|i| (g[row * values + i] * self.v[key * values + i]).abs()).sum()
        };
        let mut means = vec![0.0; self.weights.len()];
        for (row, key, weight) in self.pairs() {
            means[row] += finite(weight * slope(row, key));
        }
        for (row, key, weight) in self.pairs() {
            let error = finite(self.errors[row] * weight);
            let of_score = self.scale.abs() * error * (slope(row, key) + means[row]);
            for i in 0..depth {
                of_q[row * depth + i] += of_score * self.k[key * depth + i].abs();
                of_k[key * depth + i] += of_score * finite(self.q[row * depth + i].abs());
            }
            for i in 0..values {
                of_v[key * values + i] += error * g[row * values + i].abs();
            }
        }
        [of_q, of_k, of_v].concat()
    }
}

/// The elements of a mask for every score.
fn spread(mask: &Operand, dims: &[usize]) -> Vec<f64> {
    let shape = Shape::new(dims).expect("test shapes should be small");
    let layout: Layout =
        mask.layout.broadcast_to("attention", &shape).expect("masks should broadcast");
    let space = Collapsed::new(&shape, [&layout]);
    (0..shape.elements()).map(|point| mask.contents[space.point(point)[0]]).collect()
}

/// Where there is NaN or infinity, there is nothing to scale.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}
