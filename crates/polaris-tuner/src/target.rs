//! Tuning for a card that is not installed. Candidates are compiled to its machine code, and a model says how long
//! they will take. Everything here is a prediction.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use polaris_core::{CancellationToken, DType, Progress};
use polaris_gcn::{Access, Card, Code, Prediction, TiledProduct, Toolchain, card, model, read};
use polaris_ops::matmul::{
    Tile, TileTarget, config_of, default_tile, tile_of, tile_program, tile_source, tile_space,
    tile_splits, usual_tiles,
};
use polaris_runtime::{Capabilities, DeviceKind};
use polaris_tune::choices::{Choice, Choices};
use polaris_tune::strategy::by_name;
use polaris_tune::{History, Points, ProblemKey, Trial};
use serde::Serialize;

use crate::protocol::Config;
use crate::results::shape_text;
use crate::{Budget, Error, Result};

/// The model does not tell apart what differs by less.
const WORTH: f64 = 0.9;

const NO_TILE: Error = Error::NoCandidate("a point of the space is not a valid tile");
const NO_CANDIDATE: Error = Error::NoCandidate("no candidate could be compiled and predicted");

/// What to predict, and how to search.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// A card, such as `rx580`, or a chip, such as `gfx803`.
    pub target: String,
    /// Products of `f32` with both factors in rows.
    pub problems: Vec<ProblemKey>,
    /// The name of a strategy of [`polaris_tune::strategy`].
    pub strategy: String,
    /// The same seed makes the same search.
    pub seed: u64,
    /// How long.
    pub budget: Budget,
    /// Ends it. What was predicted is kept.
    pub cancellation: CancellationToken,
}

/// What was predicted for a card.
#[derive(Debug)]
pub struct TargetOutcome {
    /// The card.
    pub card: &'static Card,
    /// A row for each product.
    pub rows: Vec<TargetRow>,
}

/// Tunes for a card that is not installed. Clang must be able to compile for it.
///
/// # Errors
/// If the card or its compiler is not known, if a problem is another than those that are predicted, or if no
/// candidate compiles.
pub fn predict_for_target(
    options: &TargetOptions,
    progress: &mut dyn Progress,
) -> Result<TargetOutcome> {
    if options.problems.iter().any(|problem| problem.dtype != "f32" || problem.layout != "nn") {
        return Err(Error::NotPredicted);
    }
    let card = card_of(&options.target)?;
    let mut model = Model {
        card,
        capabilities: capabilities(card),
        toolchain: Toolchain::find(None, card.target)?,
        known: HashMap::new(),
    };
    let mut rows = Vec::new();
    for problem in &options.problems {
        rows.push(model.tune(options, problem, progress)?);
        if options.cancellation.is_cancelled() {
            break;
        }
    }
    Ok(TargetOutcome { card, rows })
}

impl TargetOutcome {
    /// The geometric mean of the speed-ups.
    pub fn geometric_mean(&self) -> f64 {
        let logs: f64 = self.rows.iter().map(|row| row.speedup.ln()).sum();
        (logs / self.rows.len().max(1) as f64).exp()
    }

    /// Puts the predictions into a file like those of the folder `tuning/`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let choice = |row: &TargetRow| Choice {
            problem: ProblemKey {
                operation: row.operation.to_owned(),
                dtype: row.dtype.to_owned(),
                layout: row.layout.to_owned(),
                shape: row.shape.clone(),
            },
            config: row.config.clone(),
            seconds: row.seconds[1],
            default_seconds: row.seconds[0],
            driver: format!("predicted for an {}", self.card.name),
            source: tile_source(),
            predicted: true,
        };
        Ok(Choices::new(self.rows.iter().map(choice).collect()).save(path)?)
    }
}

/// The card of a name, such as `rx580`, or the best known one with a chip, such as `gfx803`.
fn card_of(target: &str) -> Result<&'static Card> {
    let of_chip = || card::CARDS.iter().find(|card| card.target == target);
    if let Some(card) = Card::find(target).or_else(of_chip) {
        return Ok(card);
    }
    // Clang may not know it either, which is the better answer then.
    Toolchain::find(None, target)?;
    let known: Vec<String> =
        card::CARDS.iter().map(|card| format!("{} ({})", card.name, card.target)).collect();
    Err(Error::UnknownCard { target: target.to_owned(), known: known.join(", ") })
}

/// What a driver says of such a card.
fn capabilities(card: &Card) -> Capabilities {
    Capabilities {
        compute_units: card.compute_units as usize,
        clock_mhz: Some((card.clock_hz / 1e6) as u32),
        memory_bytes: 8 << 30,
        memory_free_bytes: None,
        max_allocation_bytes: 2 << 30,
        local_memory_bytes: 64 << 10,
        max_work_group: 256,
        preferred_multiple: 64,
        unified_memory: false,
        fp64: true,
        fp16_arithmetic: false,
        int_dot: false,
        subgroups: false,
        inline_ptx: false,
        simd: Vec::new(),
    }
}

/// What is predicted for one product.
#[derive(Debug, Serialize)]
pub struct TargetRow {
    /// The chip and the card.
    pub device: String,
    /// The operation.
    pub operation: &'static str,
    /// m, n, k.
    pub shape: Vec<u64>,
    /// The type.
    pub dtype: &'static str,
    /// The memory layout of the operands.
    pub layout: &'static str,
    /// The strategy's name.
    pub strategy: String,
    /// Valid configurations.
    pub space: usize,
    /// Candidates that were compiled and predicted.
    pub evaluations: usize,
    /// Those of them that could not be.
    pub failed: usize,
    /// The default.
    pub default_gflops: f64,
    /// The best.
    pub best_gflops: f64,
    /// The best by the default.
    pub speedup: f64,
    /// The best by the card's peak.
    pub share_of_peak: f64,
    /// What takes most of the time.
    pub bound: &'static str,
    /// Vector registers of each thread.
    pub vgprs: u32,
    /// Waves that a SIMD unit holds.
    pub waves_per_simd: f64,
    /// None where the default is as good.
    pub config: Option<Config>,
    /// Always: nothing was measured.
    pub predicted: bool,
    /// The default's and the best's time.
    #[serde(skip)]
    pub seconds: [f64; 2],
}

struct Model {
    card: &'static Card,
    capabilities: Capabilities,
    toolchain: Toolchain,
    /// Machine code that was read, or why there is none.
    known: HashMap<(Tile, bool), std::result::Result<Code, String>>,
}

impl Model {
    fn target(&self) -> TileTarget<'_> {
        TileTarget { kind: DeviceKind::Gpu, capabilities: &self.capabilities }
    }

    fn tile(&self, points: &Points, point: usize) -> Option<Tile> {
        tile_of(self.target(), &|name| points.value(point, name))
    }

    fn tune(
        &mut self,
        options: &TargetOptions,
        problem: &ProblemKey,
        progress: &mut dyn Progress,
    ) -> Result<TargetRow> {
        let begin = Instant::now();
        let sizes: [u32; 3] = std::array::from_fn(|axis| problem.shape[axis] as u32);
        let points = tile_space(self.target()).points()?;
        let usual: Vec<usize> = usual_tiles(self.target())
            .filter_map(|tile| {
                let config = config_of(&tile);
                points.find_named(|name| config.iter().find(|(n, _)| *n == name).map(|&(_, v)| v))
            })
            .collect();
        let (most, time) = match options.budget {
            Budget::Evaluations(count) => (count, None),
            Budget::Time(time) => (usize::MAX, Some(time / options.problems.len() as u32)),
        };
        let title = format!("{} {}", self.card.name, shape_text(problem));
        progress.begin(&title, most.min(points.len()));
        let mut strategy = by_name(&options.strategy, options.seed, None)?;
        let mut history = History::default();
        while history.trials.len() < most
            && time.is_none_or(|time| begin.elapsed() < time)
            && !options.cancellation.is_cancelled()
        {
            let first = usual.iter().copied().find(|&point| !history.has(point));
            let Some(point) = first.or_else(|| strategy.propose(&points, &history)) else { break };
            let tile = self.tile(&points, point).ok_or(NO_TILE)?;
            let seconds = self.predict(&tile, sizes).ok().map(|prediction| prediction.seconds);
            history.add(Trial { point, seconds });
            progress.advance(history.trials.len(), "");
        }
        progress.end();
        let (best, _) = history.best().ok_or(NO_CANDIDATE)?;
        let best = self.tile(&points, best).ok_or(NO_TILE)?;
        let wide = sizes.map(|size| size as usize);
        let default = default_tile(self.target(), DType::F32, wide, is_aligned(sizes))
            .ok_or(Error::NoCandidate("there is no default for this card"))?;
        let [of_default, of_best] = [&default, &best].map(|tile| self.predict(tile, sizes));
        let (of_default, of_best) = (of_default?, of_best?);
        let wins = of_best.seconds < WORTH * of_default.seconds;
        let (tile, taken) = if wins { (best, &of_best) } else { (default, &of_default) };
        let vgprs = match self.known.get(&(tile, is_aligned(sizes))) {
            Some(Ok(code)) => code.kernel.vgprs,
            _ => 0,
        };
        let config = config_of(&tile).into_iter().map(|(name, value)| (name.to_owned(), value));
        Ok(TargetRow {
            device: format!("{} ({})", self.card.target, self.card.name),
            operation: "matmul",
            shape: problem.shape.clone(),
            dtype: "f32",
            layout: "nn",
            strategy: options.strategy.clone(),
            space: points.len(),
            evaluations: history.trials.len(),
            failed: history.trials.iter().filter(|trial| trial.seconds.is_none()).count(),
            default_gflops: of_default.gflops,
            best_gflops: taken.gflops,
            speedup: of_default.seconds / taken.seconds,
            share_of_peak: taken.share_of_peak,
            bound: taken.bound.name(),
            vgprs,
            waves_per_simd: taken.waves_per_simd,
            config: wins.then(|| config.collect()),
            predicted: true,
            seconds: [of_default.seconds, taken.seconds],
        })
    }

    /// The time of a product by a tile. Machine code is made once for all shapes.
    fn predict(&mut self, tile: &Tile, [m, n, k]: [u32; 3]) -> Result<Prediction> {
        let aligned = is_aligned([m, n, k]);
        let toolchain = &self.toolchain;
        let code = self.known.entry((*tile, aligned)).or_insert_with(|| {
            let program = tile_program(tile, aligned);
            let options: Vec<String> =
                program.options.split_ascii_whitespace().map(str::to_owned).collect();
            let compiled = toolchain.compile(&program.name, &program.text(), &options);
            compiled.and_then(|compiled| read(&compiled.assembly)).map_err(|e| e.to_string())
        });
        let code = code.as_ref().map_err(|why| Error::NotCompiled(why.clone()))?;
        let product = TiledProduct {
            m,
            n,
            k,
            tile_m: tile.m.into(),
            tile_n: tile.n.into(),
            tile_k: tile.k.into(),
            threads: tile.threads() as u32,
            rows: (tile.m / tile.threads_m).into(),
            columns: (tile.n / tile.threads_n).into(),
            access: Access::default(),
        };
        let target = TileTarget { kind: DeviceKind::Gpu, capabilities: &self.capabilities };
        let splits = tile_splits(target, tile, [m, n, k].map(|size| size as usize));
        Ok(model::predict_split(self.card, code, &product, splits as u32)?)
    }
}

fn is_aligned(sizes: [u32; 3]) -> bool {
    sizes.iter().all(|size| size.is_multiple_of(4))
}
