//! `polaris tune gemm --target`: tuning for a card that is not there. Candidates are compiled to its
//! machine code, and a model says how long they will take. Everything here is a prediction.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use polaris::DType;
use polaris::ops::matmul::{
    Tile, TileTarget, config_of, default_tile, tile_of, tile_program, tile_source, tile_space,
    tile_splits, usual_tiles,
};
use polaris::runtime::{Capabilities, DeviceKind};
use polaris_gcn::{Access, Card, Code, Prediction, TiledProduct, Toolchain, card, model, read};
use polaris_tune::choices::{Choice, Choices};
use polaris_tune::strategy::by_name;
use polaris_tune::{History, Points, ProblemKey, Trial};
use serde::Serialize;

use super::protocol::Config;
use super::results::{config_text, shape_text};
use crate::arguments::{Global, TuneBudget, TuneGemm};
use crate::output::{self, Table, print_line, progress, say};
use crate::{exit, interrupt};

/// The model does not tell apart what differs by less.
const WORTH: f64 = 0.9;

pub fn run(global: &Global, options: &TuneGemm, target: &str) -> anyhow::Result<u8> {
    let plain = options.dtype.name() == "f32" && options.transpose.name() == "nn";
    anyhow::ensure!(
        plain,
        "--target predicts products of f32 with both factors in rows; leave --dtype and \
         --transpose out"
    );
    let card = card_of(target)?;
    let mut model = Model {
        card,
        capabilities: capabilities(card),
        toolchain: Toolchain::find(None, card.target)?,
        known: HashMap::new(),
    };
    let problems = options.problems();
    let mut rows = Vec::new();
    for problem in &problems {
        rows.push(model.tune(options, problem, problems.len() as u32)?);
        if interrupt::requested() {
            break;
        }
    }
    if let Some(path) = &options.output {
        save(path, card, &rows)?;
        say!("note: the predictions are in {}", path.display());
    }
    print(global, card, &rows)?;
    Ok(if interrupt::requested() { exit::INTERRUPTED } else { exit::OK })
}

/// The card of a name, such as `rx580`, or the best known one with a chip, such as `gfx803`.
fn card_of(target: &str) -> anyhow::Result<&'static Card> {
    let of_chip = || card::CARDS.iter().find(|card| card.target == target);
    if let Some(card) = Card::find(target).or_else(of_chip) {
        return Ok(card);
    }
    // Clang may not know it either, which is the better answer then.
    Toolchain::find(None, target)?;
    let known: Vec<String> =
        card::CARDS.iter().map(|card| format!("{} ({})", card.name, card.target)).collect();
    anyhow::bail!("no card with the chip {target:?} is described; there are {}", known.join(", "))
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

/// One product of the results.
#[derive(Debug, Serialize)]
struct Row {
    device: String,
    operation: &'static str,
    shape: Vec<u64>,
    dtype: &'static str,
    layout: &'static str,
    strategy: String,
    space: usize,
    evaluations: usize,
    failed: usize,
    default_gflops: f64,
    best_gflops: f64,
    speedup: f64,
    share_of_peak: f64,
    /// What takes most of the time.
    bound: &'static str,
    vgprs: u32,
    waves_per_simd: f64,
    config: Option<Config>,
    predicted: bool,
    #[serde(skip)]
    seconds: [f64; 2],
}

struct Model {
    card: &'static Card,
    capabilities: Capabilities,
    toolchain: Toolchain,
    /// Machine code that was read, or why there is none.
    known: HashMap<(Tile, bool), Result<Code, String>>,
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
        options: &TuneGemm,
        problem: &ProblemKey,
        problems: u32,
    ) -> anyhow::Result<Row> {
        let begin = Instant::now();
        let search = &options.search;
        let sizes: [u32; 3] = std::array::from_fn(|axis| problem.shape[axis] as u32);
        let points = tile_space(self.target()).points()?;
        let usual: Vec<usize> = usual_tiles(self.target())
            .filter_map(|tile| {
                let config = config_of(&tile);
                points.find_named(|name| config.iter().find(|(n, _)| *n == name).map(|&(_, v)| v))
            })
            .collect();
        let (most, time) = match search.budget {
            TuneBudget::Evaluations(count) => (count, None),
            TuneBudget::Time(time) => (usize::MAX, Some(time / problems)),
        };
        let title = format!("{} {}", self.card.name, shape_text(problem));
        let bar = progress(most.min(points.len()), &title);
        let mut strategy = by_name(&search.strategy, search.seed, None)?;
        let mut history = History::default();
        while history.trials.len() < most
            && time.is_none_or(|time| begin.elapsed() < time)
            && !interrupt::requested()
        {
            let first = usual.iter().copied().find(|&point| !history.has(point));
            let Some(point) = first.or_else(|| strategy.propose(&points, &history)) else { break };
            let tile = self.tile(&points, point).context("a point of the space is no tile")?;
            let seconds = self.predict(&tile, sizes).ok().map(|prediction| prediction.seconds);
            history.add(Trial { point, seconds });
            bar.set_position(history.trials.len() as u64);
        }
        bar.finish_and_clear();
        let (best, _) = history.best().context("no candidate could be compiled and predicted")?;
        let best = self.tile(&points, best).context("a point of the space is no tile")?;
        let wide = sizes.map(|size| size as usize);
        let default = default_tile(self.target(), DType::F32, wide, is_aligned(sizes))
            .context("there is no default for this card")?;
        let [of_default, of_best] = [&default, &best].map(|tile| self.predict(tile, sizes));
        let (of_default, of_best) = (of_default?, of_best?);
        let wins = of_best.seconds < WORTH * of_default.seconds;
        let (tile, taken) = if wins { (best, &of_best) } else { (default, &of_default) };
        let vgprs = match self.known.get(&(tile, is_aligned(sizes))) {
            Some(Ok(code)) => code.kernel.vgprs,
            _ => 0,
        };
        let config = config_of(&tile).into_iter().map(|(name, value)| (name.to_owned(), value));
        Ok(Row {
            device: format!("{} ({})", self.card.target, self.card.name),
            operation: "matmul",
            shape: problem.shape.clone(),
            dtype: "f32",
            layout: "nn",
            strategy: search.strategy.clone(),
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
    fn predict(&mut self, tile: &Tile, [m, n, k]: [u32; 3]) -> anyhow::Result<Prediction> {
        let aligned = is_aligned([m, n, k]);
        let toolchain = &self.toolchain;
        let code = self.known.entry((*tile, aligned)).or_insert_with(|| {
            let program = tile_program(tile, aligned);
            let options: Vec<String> =
                program.options.split_ascii_whitespace().map(str::to_owned).collect();
            let compiled = toolchain.compile(&program.name, &program.text(), &options);
            compiled.and_then(|compiled| read(&compiled.assembly)).map_err(|e| e.to_string())
        });
        let code = code.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?;
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

/// Puts the predictions into a file like those of the folder `tuning/`.
fn save(path: &Path, card: &Card, rows: &[Row]) -> anyhow::Result<()> {
    let choice = |row: &Row| Choice {
        problem: ProblemKey {
            operation: row.operation.to_owned(),
            dtype: row.dtype.to_owned(),
            layout: row.layout.to_owned(),
            shape: row.shape.clone(),
        },
        config: row.config.clone(),
        seconds: row.seconds[1],
        default_seconds: row.seconds[0],
        driver: format!("predicted for an {}", card.name),
        source: tile_source(),
        predicted: true,
    };
    Ok(Choices::new(rows.iter().map(choice).collect()).save(path)?)
}

fn print(global: &Global, card: &Card, rows: &[Row]) -> anyhow::Result<()> {
    if global.json {
        #[derive(Serialize)]
        struct All<'a> {
            results: &'a [Row],
            geometric_mean: f64,
        }
        let logs: f64 = rows.iter().map(|row| row.speedup.ln()).sum();
        let geometric_mean = (logs / rows.len().max(1) as f64).exp();
        return output::print_json("polaris.tune/1", &All { results: rows, geometric_mean });
    }
    print_line(&format!(
        "predicted for an {} from its machine code, of {:.0} GFLOPS; nothing was measured",
        card.name,
        card.peak() / 1e9
    ))?;
    let mut table = Table::new(&[
        "shape",
        ">default",
        ">best",
        ">of peak",
        "bound by",
        ">registers",
        ">waves",
        ">candidates",
        "configuration",
    ]);
    for row in rows {
        let shape: Vec<String> = row.shape.iter().map(u64::to_string).collect();
        table.row(vec![
            shape.join("x"),
            format!("{:.0}", row.default_gflops),
            format!("{:.0}", row.best_gflops),
            format!("{:.0}%", 100.0 * row.share_of_peak),
            row.bound.to_owned(),
            row.vgprs.to_string(),
            format!("{:.2}", row.waves_per_simd),
            format!("{} ({} failed)", row.evaluations, row.failed),
            row.config.as_ref().map_or("the default".to_owned(), config_text),
        ]);
    }
    table.print()
}
