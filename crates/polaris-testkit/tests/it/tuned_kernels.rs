//! The kernels with parameters: every point of their spaces is right, what is not a point is refused, and what tuning
//! decided is what runs.

use polaris_core::{DType, Element, MAX_RANK, Shape};
use polaris_ops::copy::{self, Copy, default_tiling, tiling_config, tiling_of, tiling_space};
use polaris_ops::matmul::{
    self, MatMul, default_skinny, skinny_config, skinny_of, skinny_source, skinny_space,
};
use polaris_ops::reduce::{
    self, Reduce, default_grouping, grouping_config, grouping_of, grouping_source, grouping_space,
};
use polaris_ops::suite::{Tolerance, agrees};
use polaris_ops::{Array, Distribution, Operation, Reduction, random, run, run_kernel};
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};
use polaris_testkit::devices_under_test;
use polaris_tune::Space;

type Config = Vec<(&'static str, i64)>;

fn value_in(config: &Config) -> impl Fn(&str) -> Option<i64> + '_ {
    |name| config.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

fn opencl_devices() -> impl Iterator<Item = (&'static DeviceRef, &'static OpenClDevice)> {
    devices_under_test().iter().filter_map(|device| Some((device, device.as_opencl()?)))
}

/// The points of a space. Of many, a third that has every value of every parameter.
fn points(space: &Space) -> Vec<Config> {
    let points = space.points().unwrap();
    let last = points.levels(points.names().len() - 1).len();
    let is_third = |point: &usize| (point % last + point / last).is_multiple_of(3);
    let is_taken = |point: &usize| match crate::in_full() {
        true => points.len() <= 40 || is_third(point),
        false => is_third(point),
    };
    (0..points.len()).filter(is_taken).map(|point| points.named(point).collect()).collect()
}

fn uniform(device: &DeviceRef, dims: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Uniform { low: -1.0, high: 1.0 };
    random::random(device, DType::F32, Shape::new(dims).unwrap(), distribution, seed).unwrap()
}

fn numbers<T: Element>(array: &Array) -> Vec<f64> {
    array.to_vec::<T>().unwrap().into_iter().map(Element::to_f64).collect()
}

/// Compares with the reference; errors scale with the magnitudes that are added up.
fn assert_right<O: Operation, T: Element>(op: &O, inputs: &[&Array], output: &Array, scale: f64) {
    let values: Vec<Vec<f64>> = inputs.iter().map(|input| numbers::<f32>(input)).collect();
    let expected = op.reference(&values, inputs, output);
    let found = numbers::<T>(output);
    assert_eq!(found.len(), expected.len());
    let tolerance = if scale > 0.0 { Tolerance::Accumulated } else { Tolerance::Exact };
    for (place, (&found, expected)) in found.iter().zip(expected).enumerate() {
        let right = agrees(tolerance, output.dtype(), found, expected, scale).is_ok();
        assert!(right, "element {place} is {found} instead of {expected}");
    }
}

#[test]
fn every_skinny_point_is_right() {
    for (device, opencl) in opencl_devices() {
        for (vectors, lines, k) in [(4, 132, 1024), (1, 67, 1031)] {
            let a = uniform(device, &[vectors, k], 1);
            // The matrix along k and across it, on either side of the product.
            let dots = uniform(device, &[lines, k], 2).permute(&[1, 0]).unwrap();
            let columns = uniform(device, &[k, lines], 3);
            let turned = [a.permute(&[1, 0]).unwrap(), columns.permute(&[1, 0]).unwrap()];
            let products = [[&a, &dots], [&a, &columns], [&turned[1], &turned[0]]];
            for config in points(&skinny_space(opencl)) {
                let skinny = skinny_of(opencl, &value_in(&config)).unwrap();
                let kernel = matmul::Kernel::Skinny(skinny);
                for [a, b] in products {
                    let shape = Shape::new(&[a.shape()[0], b.shape()[1]]).unwrap();
                    let output = Array::empty(device, DType::F32, shape).unwrap();
                    let op = MatMul::default();
                    assert!(op.supports(kernel, opencl, &[a, b], &output), "{skinny:?}");
                    run_kernel(&op, kernel, &[a, b], &output).unwrap();
                    assert_right::<_, f32>(&op, &[a, b], &output, 0.25 * k as f64);
                }
            }
        }
    }
}

/// Both kernels, which agree to the last bit.
#[test]
fn every_grouping_is_right() {
    for (device, opencl) in opencl_devices() {
        let configs = points(&grouping_space(opencl));
        let mut split = 0;
        for (outputs, elements) in [(1, 40_960), (3, 20_011)] {
            let x = uniform(device, &[outputs, elements], 1);
            for config in &configs {
                let grouping = grouping_of(opencl, &value_in(config)).unwrap();
                let sums = both_ways::<f32>(Reduction::Sum, grouping, &x, 0.5 * elements as f64);
                let places = both_ways::<i64>(Reduction::ArgMax, grouping, &x, 0.0);
                split += usize::from(sums && places);
            }
        }
        // One pass is for several groups, which a few on a small device are not.
        assert!(split >= configs.len() / 2, "{}: only {split} in one pass", device.id());
    }
}

/// Whether both kernels could be used.
fn both_ways<T: Element>(
    reduction: Reduction,
    grouping: reduce::Grouping,
    x: &Array,
    scale: f64,
) -> bool {
    let mut axes = [false; MAX_RANK];
    axes[1] = true;
    let op = Reduce { reduction, axes };
    let opencl = x.device().as_opencl().unwrap();
    let reduced = |kernel| {
        let shape = Shape::new(&x.shape()[..1]).unwrap();
        let output = Array::empty(x.device(), T::DTYPE, shape).unwrap();
        op.supports(kernel, opencl, &[x], &output).then(|| {
            run_kernel(&op, kernel, &[x], &output).unwrap();
            assert_right::<_, T>(&op, &[x], &output, scale);
            numbers::<T>(&output)
        })
    };
    let tree = reduced(reduce::Kernel::Tree(grouping)).unwrap();
    let one_pass = reduced(reduce::Kernel::OnePass(grouping));
    one_pass.is_some_and(|found| {
        assert_eq!(found, tree, "{grouping:?}");
        true
    })
}

#[test]
fn every_tiling_is_right() {
    for (device, opencl) in opencl_devices() {
        for dims in [[2, 64, 128], [3, 37, 131]] {
            let floats = uniform(device, &dims, 1);
            let bytes: Vec<u8> = (0..dims.iter().product()).map(|i: usize| i as u8).collect();
            let bytes = Array::from_slice(device, &dims, &bytes).unwrap();
            for config in points(&tiling_space(opencl)) {
                let tiling = tiling_of(opencl, &value_in(&config)).unwrap();
                assert_eq!(moved::<f32>(tiling, &floats), turned::<f32>(&floats), "{tiling:?}");
                assert_eq!(moved::<u8>(tiling, &bytes), turned::<u8>(&bytes), "{tiling:?}");
            }
        }
    }
}

/// An array of matrices with rows and columns in each other's place.
fn turned<T: Element>(x: &Array) -> Vec<T> {
    let (elements, [width, height]) = (x.to_vec().unwrap(), [x.shape()[1], x.shape()[2]]);
    let matrices = elements.chunks_exact(width * height);
    let turn = |matrix: &[T]| -> Vec<T> {
        (0..width * height).map(|at| matrix[at % width * height + at / width]).collect()
    };
    matrices.flat_map(turn).collect()
}

/// The same by the kernel.
fn moved<T: Element>(tiling: copy::Tiling, x: &Array) -> Vec<T> {
    let x = &x.permute(&[0, 2, 1]).unwrap();
    let output = Array::empty(x.device(), x.dtype(), *x.shape()).unwrap();
    let kernel = copy::Kernel::Tiled(tiling);
    assert!(Copy.supports(kernel, x.device().as_opencl().unwrap(), &[x], &output), "{tiling:?}");
    run_kernel(&Copy, kernel, &[x], &output).unwrap();
    output.to_vec().unwrap()
}

/// Whether a configuration is accepted, for each family with its default.
type Family<'a> = (Config, Box<dyn Fn(&Config) -> bool + 'a>, Space);

fn families(device: &OpenClDevice) -> [Family<'_>; 4] {
    let grouping = |config: &Config| grouping_of(device, &value_in(config)).is_some();
    let groupings = [DType::F32, DType::BF16].map(|dtype| default_grouping(device, dtype));
    let [wide, narrow] = groupings.map(|grouping| grouping_config(&grouping));
    [
        (
            skinny_config(&default_skinny(device)),
            Box::new(|config| skinny_of(device, &value_in(config)).is_some()),
            skinny_space(device),
        ),
        (wide, Box::new(grouping), grouping_space(device)),
        (narrow, Box::new(grouping), grouping_space(device)),
        (
            tiling_config(&default_tiling(device)),
            Box::new(|config| tiling_of(device, &value_in(config)).is_some()),
            tiling_space(device),
        ),
    ]
}

#[test]
fn defaults_are_points_and_nonsense_is_not() {
    const NONSENSE: [i64; 8] = [0, -1, -64, 272, 65_600, 1 << 32 | 64, i64::MIN, i64::MAX];
    for (_, opencl) in opencl_devices() {
        for (default, accepts, space) in families(opencl) {
            assert!(accepts(&default), "{default:?}");
            assert!(space.points().unwrap().find_named(value_in(&default)).is_some());
            for place in 0..default.len() {
                let mut missing = default.clone();
                let (name, _) = missing.remove(place);
                assert!(!accepts(&missing), "{missing:?}");
                // Any number of groups will do, but other sizes are powers of two.
                let odd = (name != "groups_per_unit").then_some(7);
                for value in NONSENSE.into_iter().chain(odd) {
                    let mut changed = default.clone();
                    changed[place].1 = value;
                    assert!(!accepts(&changed), "{changed:?}");
                }
            }
        }
    }
}

/// A file with decisions for one chip.
fn decisions(choices: &[(&str, &str, &str, &Config)]) -> String {
    let entries: Vec<String> = choices
        .iter()
        .map(|(operation, layout, shape, config)| {
            let values: Vec<String> =
                config.iter().map(|(name, value)| format!("{name:?}: {value}")).collect();
            format!(
                r#"{{"problem": {{"operation": "{operation}", "dtype": "f32", "layout": "{layout}",
                "shape": {shape}}}, "config": {{{}}}, "seconds": 1.0, "default_seconds": 2.0,
                "driver": "", "source": ""}}"#,
                values.join(", ")
            )
        })
        .collect();
    format!(r#"{{"schema": 1, "choices": [{}]}}"#, entries.join(", "))
}

#[test]
fn what_was_decided_is_what_runs() {
    if std::env::var_os("POLARIS_TUNING").is_some() {
        eprintln!("SKIPPED: decisions, since POLARIS_TUNING is set");
        return;
    }
    let skinny: Config = vec![("group", 128), ("lanes", 16), ("groups_per_unit", 8)];
    let grouping: Config = vec![("group", 64), ("piece", 4), ("groups_per_unit", 2)];
    let tiling: Config = vec![("tile", 16), ("rows", 8)];
    let text = decisions(&[
        ("gemv", "dots", "[1, 64, 512]", &skinny),
        ("reduce", "rows", "[2, 40000]", &grouping),
        ("permute", "t", "[1, 48, 80]", &tiling),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let mut options = RuntimeOptions::default();
    options.paths.data = Some(folder.path().to_owned());
    let tuning = options.paths.tuning().unwrap();
    std::fs::create_dir_all(&tuning).unwrap();
    for (device, _) in opencl_devices() {
        let file = format!("{}.choices.json", device.info().chip.key);
        std::fs::write(tuning.join(file), &text).unwrap();
    }
    let runtime = Runtime::discover(&options).unwrap();
    for device in &runtime.devices()[1..] {
        let opencl = device.as_opencl().unwrap();
        let zeros =
            |dims: &[usize]| Array::empty(device, DType::F32, Shape::new(dims).unwrap()).unwrap();
        let preferred_skinny = |lines: usize, k: usize| {
            let (a, b) = (uniform(device, &[1, k], 1), uniform(device, &[lines, k], 2));
            let (b, output) = (b.permute(&[1, 0]).unwrap(), zeros(&[1, lines]));
            let op = MatMul::default();
            run(&op, &[&a, &b], &output).unwrap();
            assert_right::<_, f32>(&op, &[&a, &b], &output, 0.25 * k as f64);
            op.preferred(opencl, &[&a, &b], &output)
        };
        let decided = matmul::Kernel::Skinny(skinny_of(opencl, &value_in(&skinny)).unwrap());
        assert_eq!(preferred_skinny(64, 512), Some(decided));
        assert_eq!(preferred_skinny(64, 400), Some(decided), "as good as the same");
        assert_ne!(preferred_skinny(64, 2048), Some(decided), "too far away");

        let preferred_sum = |elements: usize| {
            let (x, output) = (uniform(device, &[2, elements], 1), zeros(&[2]));
            let mut axes = [false; MAX_RANK];
            axes[1] = true;
            let op = Reduce { reduction: Reduction::Sum, axes };
            run(&op, &[&x], &output).unwrap();
            assert_right::<_, f32>(&op, &[&x], &output, 0.5 * elements as f64);
            op.preferred(opencl, &[&x], &output)
        };
        let decided = grouping_of(opencl, &value_in(&grouping)).unwrap();
        let ways = [reduce::Kernel::OnePass(decided), reduce::Kernel::Tree(decided)];
        assert!(preferred_sum(40_000).is_some_and(|kernel| ways.contains(&kernel)));
        assert_eq!(preferred_sum(39_999), None, "not as well aligned");

        let preferred_copy = |width: usize, height: usize| {
            let stored = uniform(device, &[1, width, height], 1);
            let (x, output) = (stored.permute(&[0, 2, 1]).unwrap(), zeros(&[1, height, width]));
            run(&Copy, &[&x], &output).unwrap();
            assert_eq!(output.to_vec::<f32>().unwrap(), turned::<f32>(&stored));
            Copy.preferred(opencl, &[&x], &output)
        };
        let decided = tiling_of(opencl, &value_in(&tiling)).unwrap();
        assert_eq!(preferred_copy(48, 80), Some(copy::Kernel::Tiled(decided)));
        assert_eq!(preferred_copy(480, 80), None);
    }
    assert_ne!(skinny_source(), grouping_source());
}
