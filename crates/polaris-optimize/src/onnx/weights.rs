//! Levels of weights by what layers multiply them with: GPTQ for products and convolutions.
//!
//! A convolution is a product of its kernels with the windows of images. Of large images not all windows are taken, but some
//! at random places: second moments need a few times as many as a window has elements.

use polaris_core::random::SplitMix64;
use polaris_graph::Options;
use polaris_onnx::{Node, Tensor, Window, windows};
use polaris_runtime::Runtime;

use super::layer::Linear;
use super::rewrite::halve_scales;
use super::{Batch, Float, Observer};
use crate::descent::DescentOptions;
use crate::hessian::{Factor, FactorOptions, Hessian};
use crate::integer::{Clip, IntMatrix, descend, gptq};
use crate::{Error, Result};

/// Windows of a sample that are taken at most.
const PLACES: usize = 64;

/// How levels are chosen.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchOptions {
    /// How second moments are used.
    pub factor: FactorOptions,
    /// How levels are improved afterwards.
    pub descent: DescentOptions,
}

/// Layers whose inputs are collected at once.
#[derive(Debug)]
pub struct WeightSearch {
    observer: Observer,
    layers: Vec<Inputs>,
    random: SplitMix64,
}

/// What a weight is multiplied with.
#[derive(Debug)]
struct Inputs {
    linear: usize,
    /// The inputs of all layers that share the weight, by the places of layers.
    xs: Vec<(usize, String)>,
    /// One for each group of channels.
    hessians: Vec<Hessian>,
}

impl Float {
    /// The layers whose weights can be searched, in parts whose second moments take about so many bytes; a layer that takes
    /// more is a part by itself. Of layers that share a weight the first stands for all; transposed convolutions are left
    /// out.
    pub fn parts(&self, bytes: usize) -> Vec<Vec<usize>> {
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut used = 0;
        let mut keys = Vec::new();
        for (at, linear) in self.linears.iter().enumerate() {
            let node = &self.model.graph.nodes[linear.node];
            if node.operator == "ConvTranspose" || keys.contains(&linear.key()) {
                continue;
            }
            keys.push(linear.key());
            let own = 4 * linear.form.columns().pow(2) * groups_of(node, linear);
            match parts.last_mut().filter(|_| used + own <= bytes) {
                Some(part) => part.push(at),
                None => {
                    parts.push(vec![at]);
                    used = 0;
                }
            }
            used += own;
        }
        parts
    }

    /// Takes the levels that a search found for its layers.
    pub fn choose(&mut self, found: Vec<(usize, IntMatrix)>) {
        let each = found.into_iter().map(|(at, matrix)| (self.linears[at].key(), matrix));
        self.chosen.extend(each);
    }
}

/// Groups of channels that have inputs of their own.
fn groups_of(node: &Node, linear: &Linear) -> usize {
    let groups = match node.operator.as_str() {
        "Conv" => node.attributes.int_or("group", 1).unwrap_or(1),
        _ => 1,
    };
    let fits = |&groups: &usize| groups > 0 && linear.form.channels.is_multiple_of(groups);
    usize::try_from(groups).ok().filter(fits).unwrap_or(1)
}

impl WeightSearch {
    /// Prepares a float model for collecting the inputs of one of its [`parts`](Float::parts).
    ///
    /// # Errors
    /// If the model cannot be run, or there is no room.
    pub fn new(
        float: &Float,
        part: &[usize],
        runtime: &Runtime,
        session: &Options,
    ) -> Result<Self> {
        let inputs = |&at: &usize| {
            let linear = &float.linears[at];
            let groups = groups_of(&float.model.graph.nodes[linear.node], linear);
            let hessian = |_| Hessian::new(runtime.cpu(), linear.form.columns());
            let hessians = (0..groups).map(hessian).collect::<Result<_>>()?;
            let shares = |(_, other): &(usize, &Linear)| other.key() == linear.key();
            let users = float.linears.iter().enumerate().filter(shares);
            let name = |other: &Linear| float.model.graph.value(other.x).name.clone();
            let xs = users.map(|(at, other)| (at, name(other))).collect();
            Ok(Inputs { linear: at, xs, hessians })
        };
        let layers: Vec<Inputs> = part.iter().map(inputs).collect::<Result<_>>()?;
        let mut names: Vec<&String> =
            layers.iter().flat_map(|inputs| &inputs.xs).map(|(_, x)| x).collect();
        names.sort_unstable();
        names.dedup();
        let observer = Observer::new(runtime, &float.model, &names, session)?;
        Ok(Self { observer, layers, random: SplitMix64::new(1) })
    }

    /// Collects what some samples make of the layers' inputs.
    ///
    /// # Errors
    /// If the samples do not fit the model, it fails, or a value is not finite; the error names the tensor.
    pub fn add(&mut self, float: &Float, batch: &Batch) -> Result<()> {
        let tensors = self.observer.tensors(batch)?;
        for Inputs { xs, hessians, .. } in &mut self.layers {
            for (at, name) in xs {
                let Some((_, x)) = tensors.iter().find(|(own, _)| own == name) else { continue };
                let linear = &float.linears[*at];
                let node = &float.model.graph.nodes[linear.node];
                let added = if node.operator == "Conv" {
                    let weight = float.model.graph.value(linear.weight);
                    let tensor =
                        weight.constant.as_ref().map(|value| value.tensor()).transpose()?;
                    let kernel = tensor.map_or(&[][..], |tensor| &tensor.shape()[2..]);
                    add_windows(hessians, x, node, kernel, &mut self.random)
                } else {
                    hessians[0].add(&x.values::<f32>()?)
                };
                added.map_err(|error| match error {
                    Error::NotFinite { value, .. } => {
                        let why = format!("a value is {value}");
                        Error::Activation { tensor: name.clone(), why }
                    }
                    other => other,
                })?;
            }
        }
        Ok(())
    }

    /// Chooses the levels of the layers' weights; each is told with its number among all layers when it is done.
    ///
    /// # Errors
    /// If a weight is not finite, there is no room, or `cancelled` says so.
    pub fn finish(
        self,
        float: &Float,
        options: &SearchOptions,
        done: &mut dyn FnMut(usize),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<(usize, IntMatrix)>> {
        let mut found = Vec::with_capacity(self.layers.len());
        for Inputs { linear: at, hessians, .. } in self.layers {
            let linear = &float.linears[at];
            let rows = linear.rows(&float.model.graph)?;
            let each = rows.len() / hessians.len();
            let mut matrix: Option<IntMatrix> = None;
            for (hessian, rows) in hessians.iter().zip(rows.chunks(each.max(1))) {
                let group =
                    levels(linear, rows, hessian, options, cancelled).map_err(
                        |error| match error {
                            Error::Cancelled => Error::Cancelled,
                            other => float.of_weight(linear, &other),
                        },
                    )?;
                match &mut matrix {
                    None => matrix = Some(group),
                    Some(matrix) => {
                        matrix.rows += group.rows;
                        matrix.levels.extend(group.levels);
                        matrix.scalings.extend(group.scalings);
                    }
                }
            }
            found.extend(matrix.map(|matrix| (at, matrix)));
            done(at);
        }
        Ok(found)
    }
}

/// Levels of the rows that have the same inputs.
fn levels(
    linear: &Linear,
    rows: &[f32],
    hessian: &Hessian,
    options: &SearchOptions,
    cancelled: &dyn Fn() -> bool,
) -> Result<IntMatrix> {
    let factor = Factor::new(hessian, &options.factor)?;
    let mut matrix = gptq(rows, linear.grid, Clip::Search, &factor, cancelled)?.matrix;
    // Half precision moves scales by less than a thousandth, for which the levels that were found stay good.
    halve_scales(&mut matrix);
    descend(rows, &mut matrix, hessian, &options.descent, cancelled)?;
    Ok(matrix)
}

/// Adds windows of images to the second moments of each group of channels.
fn add_windows(
    hessians: &mut [Hessian],
    x: &Tensor,
    node: &Node,
    kernel: &[usize],
    random: &mut SplitMix64,
) -> Result<()> {
    let &[images, channels, ref axes @ ..] = x.shape() else { return Ok(()) };
    let windows = windows(&node.attributes, axes, kernel)?;
    let places: usize = windows.iter().map(|window| window.output).product();
    let (x, area) = (x.values::<f32>()?, axes.iter().product::<usize>());
    let taken: Vec<[usize; 2]> = (0..images)
        .flat_map(|image| (0..places.min(PLACES)).map(move |at| [image, at]))
        .map(|[image, at]| match places <= PLACES {
            true => [image, at],
            false => [image, (random.unit() * places as f64) as usize],
        })
        .collect();
    let each = channels / hessians.len();
    for (group, hessian) in hessians.iter_mut().enumerate() {
        let mut rows = Vec::with_capacity(taken.len() * hessian.columns());
        for &[image, place] in &taken {
            for channel in group * each..(group + 1) * each {
                let from = &x[(image * channels + channel) * area..][..area];
                push_window(&mut rows, from, &windows, place);
            }
        }
        hessian.add(&rows)?;
    }
    Ok(())
}

/// The elements of one window of a channel; zeros where it lies on padding.
fn push_window(to: &mut Vec<f32>, channel: &[f32], windows: &[Window], place: usize) {
    let taps: usize = windows.iter().map(|window| window.kernel).product();
    for tap in 0..taps {
        let (mut place, mut tap, mut at, mut step) = (place, tap, 0, 1);
        let mut is_inside = true;
        for window in windows.iter().rev() {
            let start = (place % window.output * window.stride) as i64 - window.before;
            let element = start + (tap % window.kernel * window.dilation) as i64;
            is_inside &= (0..window.input as i64).contains(&element);
            at += step * element.max(0) as usize;
            (place, tap, step) = (place / window.output, tap / window.kernel, step * window.input);
        }
        to.push(if is_inside { channel[at] } else { 0.0 });
    }
}
