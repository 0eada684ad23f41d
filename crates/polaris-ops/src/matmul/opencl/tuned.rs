//! What tuning decided: this machine's choices, then those that come with Polaris for this chip,
//! its architecture or its maker. Nothing is measured here.

use polaris_core::DType;
use polaris_runtime::Device;
use polaris_runtime::opencl::OpenClDevice;
use polaris_tune::choices::{Choice, Choices};

use super::{Tile, tile_of};
use crate::matmul::geometry::Geometry;

/// Choices that come with Polaris, by the chip, architecture or maker they are for.
const SHIPPED: &[(&str, &str)] =
    &[("nvidia-h200", include_str!("../../../../../tuning/nvidia-h200.json"))];

/// How far, in doublings of all sizes together, a shape may be from one that was tuned.
const NEAR: f32 = 1.0;

/// One decision.
#[derive(Debug, Clone, Copy)]
struct Entry {
    dtype: DType,
    layout: [u8; 2],
    sizes: [usize; 3],
    logs: [f32; 3],
    /// None where the cost model's choice is best.
    tile: Option<Tile>,
}

/// The decisions for one device, nearest origin first.
#[derive(Debug, Default)]
struct Tuned {
    origins: Vec<Vec<Entry>>,
}

/// What was decided for a product: a tile, or that the cost model knows best. Nothing if no shape
/// like it was tuned.
pub(super) fn tuned(
    device: &OpenClDevice,
    dtype: DType,
    geometry: &Geometry,
) -> Option<Option<Tile>> {
    let tuned = device.attached(|| Tuned::load(device))?;
    if tuned.origins.is_empty() || geometry.batches.elements() != 1 {
        return None;
    }
    let sizes = [geometry.m, geometry.n, geometry.k];
    let letter = |along_row: bool| if along_row { b'n' } else { b't' };
    let layout = [letter(geometry.a.columns == 1), letter(geometry.b.columns == 1)];
    tuned.origins.iter().find_map(|entries| find(entries, dtype, layout, sizes))
}

/// The entry for these sizes, or for the nearest ones that are as well aligned.
fn find(
    entries: &[Entry],
    dtype: DType,
    layout: [u8; 2],
    sizes: [usize; 3],
) -> Option<Option<Tile>> {
    let logs = sizes.map(|size| (size.max(1) as f32).log2());
    let aligned = sizes.map(|size| size.is_multiple_of(4));
    let mut best: Option<(f32, Option<Tile>)> = None;
    for entry in entries.iter().filter(|entry| entry.dtype == dtype && entry.layout == layout) {
        if entry.sizes == sizes {
            return Some(entry.tile);
        }
        let distance: f32 = entry.logs.iter().zip(logs).map(|(a, b)| (a - b).abs()).sum();
        let is_near = distance <= NEAR && entry.sizes.map(|s| s.is_multiple_of(4)) == aligned;
        if is_near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, entry.tile));
        }
    }
    best.map(|(_, tile)| tile)
}

impl Tuned {
    fn load(device: &OpenClDevice) -> Self {
        if std::env::var("POLARIS_TUNING").is_ok_and(|value| value.eq_ignore_ascii_case("off")) {
            return Self::default();
        }
        let chip = &device.info().chip;
        let own =
            device.tuning_folder().map(|folder| Choices::load(&Choices::file(folder, &chip.key)));
        let maker = chip.vendor.to_string().to_lowercase();
        let shipped = [&chip.key, &chip.architecture, &maker].into_iter().filter_map(|name| {
            let found = SHIPPED.iter().find(|(shipped, _)| shipped == name);
            found.map(|(_, text)| Choices::from_json(text))
        });
        let origins = own.into_iter().chain(shipped).map(|choices| {
            choices.choices.iter().filter_map(|choice| entry(device, choice)).collect()
        });
        Self { origins: origins.filter(|entries: &Vec<Entry>| !entries.is_empty()).collect() }
    }
}

/// A choice as an entry; nothing if it is for something else or this device cannot do it.
fn entry(device: &OpenClDevice, choice: &Choice) -> Option<Entry> {
    let problem = &choice.problem;
    let dtype = DType::ALL.iter().copied().find(|dtype| dtype.name() == problem.dtype)?;
    let [m, n, k] = problem.shape[..] else { return None };
    if problem.operation != "matmul" {
        return None;
    }
    let tile = match &choice.config {
        Some(config) => Some(tile_of(device, &|name| config.get(name).copied())?),
        None => None,
    };
    let sizes = [m, n, k].map(|size| size as usize);
    Some(Entry {
        dtype,
        layout: problem.layout.as_bytes().try_into().ok()?,
        sizes,
        logs: sizes.map(|size| (size.max(1) as f32).log2()),
        tile,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_can_be_read() {
        for (name, text) in SHIPPED {
            let choices = Choices::from_json(text).choices;
            assert!(!choices.is_empty(), "{name}");
            for choice in choices {
                assert_eq!(choice.problem.shape.len(), 3, "{name}");
                assert!(choice.seconds <= choice.default_seconds, "{name}: {choice:?}");
            }
        }
    }

    #[test]
    fn the_nearest_shape_with_the_same_alignment_is_taken() {
        let tile = |m| Some(Tile::new(m, 64, 16, 8, 8));
        let entry = |size: usize, tile| Entry {
            dtype: DType::F32,
            layout: *b"nn",
            sizes: [size; 3],
            logs: [(size as f32).log2(); 3],
            tile,
        };
        let entries = [entry(512, tile(32)), entry(1024, tile(64)), entry(1023, None)];
        let found = |sizes| find(&entries, DType::F32, *b"nn", sizes);
        assert_eq!(found([512; 3]), Some(tile(32)));
        assert_eq!(found([1000; 3]), Some(tile(64)));
        assert_eq!(found([1021; 3]), Some(None));
        assert_eq!(found([64; 3]), None);
        assert_eq!(find(&entries, DType::F16, *b"nn", [512; 3]), None);
        assert_eq!(find(&entries, DType::F32, *b"nt", [512; 3]), None);
    }
}
