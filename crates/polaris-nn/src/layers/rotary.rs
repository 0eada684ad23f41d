//! Rotary position embeddings: the tables of angles that attention layers share.

use std::sync::{Mutex, PoisonError};

use polaris_core::DType;
use polaris_ops::rope::Pairing;
use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;

use crate::export::Writer;
use crate::{Error, Init, Pass, Result};

/// The number that ONNX has for `f32`.
const ONNX_F32: i64 = 1;

/// Rotates neighbouring elements of queries and keys by angles that grow with the position, as LLaMA was published and
/// as GGUF files of its architecture mean it.
pub struct Rotary {
    device: DeviceRef,
    dtype: DType,
    /// The angle that each pair turns by with each position.
    frequencies: Vec<f64>,
    /// Cosines and sines, `[positions, 1, pairs]`, for the longest row that was seen.
    tables: Mutex<Option<[Tensor; 2]>>,
}

impl Rotary {
    /// Tables for heads of so many elements. The angles of the first pair are the positions, those of later ones are
    /// slower, by powers of `theta`.
    ///
    /// # Errors
    /// If the size is odd, or `theta` is not above 0.
    pub fn new(size: usize, theta: f64, init: &Init) -> Result<Self> {
        if !size.is_multiple_of(2) || !(theta.is_finite() && theta > 0.0) {
            let what = format!(
                "rotary embeddings turn pairs by powers of a number: a head of {size} elements and rope_theta = \
                 {theta} do not fit; use an even size and a number above 0"
            );
            return Err(Error::invalid(what));
        }
        let frequency = |pair: usize| theta.powf(-2.0 * pair as f64 / size as f64);
        let frequencies = (0..size / 2).map(frequency).collect();
        let (device, dtype) = (init.device().clone(), init.dtype());
        Ok(Self { device, dtype, frequencies, tables: Mutex::default() })
    }

    /// Rotates `[batch, tokens, heads, size]`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn rotate(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let tokens = x.dims().get(1).copied().unwrap_or(0);
        let [cos, sin] = self.tables(tokens)?;
        Ok(x.rope(&pass.cast(&cos)?, &pass.cast(&sin)?, Pairing::Adjacent)?)
    }

    /// Writes the rotation of `x`, `[batch, tokens, heads * size]`, which becomes `[batch, tokens, heads, size]`.
    pub(super) fn export(&self, x: &str, heads: usize, graph: &mut Writer) -> String {
        let pairs = self.frequencies.len();
        let (first, step) = (graph.index(0), graph.index(1));
        let tokens = graph.node("Shape", &[x], &[("start", 1.into()), ("end", 2.into())]);
        let axis = graph.integers(&[0]);
        let tokens = graph.node("Squeeze", &[&tokens, &axis], &[]);
        let positions = graph.node("Range", &[&first, &tokens, &step], &[]);
        let positions = graph.node("Cast", &[&positions], &[("to", ONNX_F32.into())]);
        let column = graph.integers(&[-1, 1, 1, 1]);
        let positions = graph.node("Reshape", &[&positions, &column], &[]);
        let frequencies = graph.floats(&[1, pairs, 1], &self.frequencies);
        let angles = graph.node("Mul", &[&positions, &frequencies], &[]);
        let [cos, sin] = ["Cos", "Sin"].map(|function| graph.node(function, &[&angles], &[]));
        let shape = graph.integers(&[0, 0, heads as i64, pairs as i64, 2]);
        let x = graph.node("Reshape", &[x, &shape], &[]);
        let (ones, last) = (graph.integers(&[1, 1]), [("axis", (-1).into())]);
        let [a, b]: [String; 2] = graph.nodes("Split", &[&x, &ones], &last);
        let mut product = |x: &str, y: &str| graph.node("Mul", &[x, y], &[]);
        let (a_cos, b_sin) = (product(&a, &cos), product(&b, &sin));
        let (b_cos, a_sin) = (product(&b, &cos), product(&a, &sin));
        let a = graph.node("Sub", &[&a_cos, &b_sin], &[]);
        let b = graph.node("Add", &[&b_cos, &a_sin], &[]);
        let x = graph.node("Concat", &[&a, &b], &last);
        let shape = graph.integers(&[0, 0, heads as i64, 2 * pairs as i64]);
        graph.node("Reshape", &[&x, &shape], &[])
    }

    /// The tables for so many positions. They are made when they are needed: what a file claims about its context
    /// takes no memory.
    fn tables(&self, tokens: usize) -> Result<[Tensor; 2]> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = match &*tables {
            Some(tables) if tables[0].dims()[0] >= tokens => tables.clone(),
            _ => {
                let angle = |at: usize| self.frequencies.iter().map(move |f| at as f64 * f);
                let angles: Vec<f64> = (0..tokens).flat_map(angle).collect();
                let table = |function: fn(f64) -> f64| -> Result<Tensor> {
                    let values: Vec<f64> = angles.iter().map(|&angle| function(angle)).collect();
                    let dims = [tokens, 1, self.frequencies.len()];
                    let table = Tensor::from_slice(&self.device, &dims, &values)?;
                    Ok(table.to_dtype(self.dtype)?)
                };
                tables.insert([table(f64::cos)?, table(f64::sin)?]).clone()
            }
        };
        Ok([whole[0].narrow(0, 0..tokens)?, whole[1].narrow(0, 0..tokens)?])
    }
}

impl std::fmt::Debug for Rotary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rotary({} pairs)", self.frequencies.len())
    }
}
